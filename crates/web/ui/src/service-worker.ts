// The service worker: it shows notifications, and keeps the page itself for moments without a server. It never touches
// calls of the server, so no answer of the API is ever stored here.
//
// A worker of a new build waits until no tab uses the old one. Old tabs thus keep the files of their own build, which the
// new server no longer has.

interface Shell {
  build: string
  files: string[]
}

interface Waiting extends Event {
  waitUntil(work: Promise<unknown>): void
}

interface Installing extends Waiting {
  addRoutes?(routes: unknown[]): Promise<void>
}

interface Fetching extends Waiting {
  request: Request
  respondWith(response: Promise<Response>): void
}

interface Clicked extends Waiting {
  notification: Notification
}

interface Tab {
  url: string
  focus(): Promise<unknown>
  postMessage(message: unknown): void
}

interface Scope {
  registration: { scope: string }
  clients: {
    claim(): Promise<void>
    matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<Tab[]>
    openWindow(address: string): Promise<unknown>
  }
  addEventListener(type: "install", listener: (event: Installing) => void): void
  addEventListener(type: "activate", listener: (event: Waiting) => void): void
  addEventListener(type: "fetch", listener: (event: Fetching) => void): void
  addEventListener(type: "notificationclick", listener: (event: Clicked) => void): void
}

const worker = self as unknown as Scope
// The build replaces this text.
const shell = "__SHELL__" as unknown as Shell
const PREFIX = "baton-shell-"
const NAME = PREFIX + shell.build
const scope = new URL(worker.registration.scope)
const assets = new URL("web/assets/", scope).href

// Calls of the server go past the worker, so that they never wait until the browser has started it.
function bypass(event: Installing) {
  const files = { urlPattern: { pathname: `${new URL(assets).pathname}*` } }
  const condition = { not: { or: [files, { requestMode: "navigate" }] } }
  // A browser without routes, or without this kind of condition, asks the worker, which leaves the call alone.
  return Promise.resolve(event.addRoutes?.([{ condition, source: "network" }])).catch(() => {})
}

worker.addEventListener("install", (event) => {
  try {
    event.waitUntil(bypass(event))
  } catch {
    // The same, from a browser that throws at once.
  }
  // The browser has just loaded these files; its own cache has them.
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(shell.files.map((file) => new URL(file, scope).href))))
})

worker.addEventListener("activate", (event) => {
  const isOld = (name: string) => name.startsWith(PREFIX) && name !== NAME
  const tidied = caches.keys().then((names) => Promise.all(names.filter(isOld).map((name) => caches.delete(name))))
  // The page that installed the worker is the first that it serves.
  event.waitUntil(tidied.then(() => worker.clients.claim()))
})

worker.addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request
  const { origin, pathname } = new URL(url)
  if (method !== "GET") return
  // Frames are not the page: the terminal is useless without a server.
  const isPage = mode === "navigate" && event.request.destination === "document"
  if (isPage && origin === scope.origin && pathname === scope.pathname) event.respondWith(page(event.request))
  else if (url.startsWith(assets)) event.respondWith(asset(event.request))
})

const isGood = (response: Response, kind: string) => response.ok && (response.headers.get("content-type") ?? "").startsWith(kind)

// The page comes from the server, so that a new build is seen at once; without a server, from here.
async function page(request: Request): Promise<Response> {
  const cache = await caches.open(NAME)
  try {
    const response = await fetch(request)
    if (isGood(response, "text/html")) await cache.put(scope.href, response.clone())
    return response
  } catch (error) {
    const known = await cache.match(scope.href)
    if (known) return known
    throw error
  }
}

// The name of a file contains its hash, so a stored one is never outdated.
async function asset(request: Request): Promise<Response> {
  const known = await caches.match(request.url)
  if (known) return known
  const response = await fetch(request)
  if (response.ok) {
    const cache = await caches.open(NAME)
    await cache.put(request.url, response.clone())
  }
  return response
}

worker.addEventListener("notificationclick", (event) => {
  event.notification.close()
  const { link } = (event.notification.data ?? {}) as { link?: unknown }
  if (typeof link === "string" && link.startsWith("#/")) event.waitUntil(openPlace(link))
})

// Focuses a tab of the page and shows the place in it, or opens a new tab.
async function openPlace(link: string) {
  const tabs = await worker.clients.matchAll({ type: "window", includeUncontrolled: true })
  const tab = tabs.find(({ url }) => url.split("#")[0]!.split("?")[0] === scope.href)
  if (!tab) return worker.clients.openWindow(scope.href + link)
  tab.postMessage({ kind: "open", link })
  // A browser may refuse the focus; the place is open all the same.
  return tab.focus().catch(() => {})
}
