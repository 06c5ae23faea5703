// Calls that browsers and ordinary clients do not allow.

import http from "node:http"

// A call with exactly these headers; `fetch` does not allow a `Host`.
export function call(baton, { method = "GET", target = "/session", headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(new URL(target, baton.url), { method, headers, agent: false }, (response) => {
      const answer = { status: response.statusCode, headers: response.headers, body: "" }
      // An event stream does not end, so only its head is read.
      if (response.headers["content-type"]?.startsWith("text/event-stream")) {
        response.destroy()
        resolve(answer)
        return
      }
      response.setEncoding("utf8").on("data", (text) => (answer.body += text))
      response.on("end", () => resolve(answer)).on("error", reject)
    })
    request.on("error", reject)
    request.end(body)
  })
}
