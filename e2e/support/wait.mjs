// Waits for events themselves. The timeouts only prevent endless waits.

// The result of `promise`, or an error after a timeout that names the missing event.
export async function within(ms, promise, what, context = () => "") {
  let timer
  const guard = new Promise((_, reject) => {
    timer = setTimeout(() => {
      const more = context()
      reject(new Error(`waited ${ms} ms in vain for ${what}${more ? `\n${more}` : ""}`))
    }, ms)
  })
  try {
    return await Promise.race([promise, guard])
  } finally {
    clearTimeout(timer)
  }
}

// A promise and the function that fulfils it.
export function signal() {
  let resolve
  const promise = new Promise((fulfil) => (resolve = fulfil))
  return { promise, resolve }
}
