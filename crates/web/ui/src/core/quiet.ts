// Hours of the day without notifications.

const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/

function minutes(time: string): number | undefined {
  const [, hour, minute] = TIME.exec(time) ?? []
  return hour === undefined ? undefined : Number(hour) * 60 + Number(minute)
}

// True from the first time until the second, also over midnight. Equal or missing times mean no quiet hours.
export function isQuiet(now: { getHours(): number; getMinutes(): number }, from: string, to: string): boolean {
  const [start, end] = [minutes(from), minutes(to)]
  if (start === undefined || end === undefined || start === end) return false
  const at = now.getHours() * 60 + now.getMinutes()
  return start < end ? at >= start && at < end : at >= start || at < end
}
