// Waiting for the thing itself. The times here are guards against waiting for ever, never a way to wait.

// What `promise` resolves with, or an error that says what did not happen.
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

// A promise and the way to fulfil it.
export function signal() {
  let resolve
  const promise = new Promise((fulfil) => (resolve = fulfil))
  return { promise, resolve }
}
