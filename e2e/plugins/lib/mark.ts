/** A text with a mark behind it. */
export const mark = (text: string, how: string): string => `${text} [${how}]`
