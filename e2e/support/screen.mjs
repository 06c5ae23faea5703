// Parts of the web page that most browser tests look at, and ways to wait for them.

export const box = (page) => page.locator(".composer textarea")

// Waits until the composer contains exactly this text.
export const holds = (page, text) =>
  page.waitForFunction((text) => document.querySelector(".composer textarea")?.value === text, text)

export const row = (page, title) => page.locator(".row", { hasText: title })

// Waits until the row of a session is in a state.
export const state = (page, title, value) => row(page, title).and(page.locator(`[data-state="${value}"]`)).waitFor()

// Waits until the open session is in one of the states that the pattern names.
export const ends = (page, pattern = /Completed|Idle/) => page.locator(".head .state", { hasText: pattern }).waitFor()

// Waits until a request of the open session accepts answers.
export const armed = (page) => page.locator('.request[data-armed="true"]').waitFor()

// Waits until the elements of a selector have exactly these texts, in order.
export const reads = (page, selector, expected) =>
  page.waitForFunction(
    ([selector, expected]) => {
      const found = [...document.querySelectorAll(selector)].map((it) => it.innerText.trim())
      return JSON.stringify(found) === JSON.stringify(expected)
    },
    [selector, expected],
  )

// Waits until the transcript scrolls no more.
export const still = (page) =>
  page.waitForFunction(
    () =>
      new Promise((done) => {
        const it = document.querySelector(".transcript")
        const before = it.scrollTop
        requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => done(it.scrollTop === before))))
      }),
  )

export const unfold = (page) => page.evaluate(() => document.querySelectorAll("details").forEach((it) => (it.open = true)))

// The number of elements in the page.
export const nodes = (page) => page.evaluate(() => document.querySelectorAll("*").length)

// The text that a user or a model wrote in a message of the server.
export const textOf = ({ parts }) =>
  parts
    .filter((part) => part.type === "text" && !part.synthetic)
    .map((part) => part.text)
    .join("\n")
    .trim()
