// The page's side of its service worker. Browsers have one only for https and localhost; without it the page works all the
// same, and shows notifications itself.

import { ownScript } from "./dom.ts"
import { go } from "./route.ts"

// The worker is not needed for the first screen.
const afterwards = (work: () => void) => ("requestIdleCallback" in window ? requestIdleCallback(work) : setTimeout(work, 1_000))

export function startWorker() {
  const workers = navigator.serviceWorker as ServiceWorkerContainer | undefined
  if (!workers) return
  workers.addEventListener("message", ({ data }: MessageEvent<{ kind?: unknown; link?: unknown }>) => {
    if (data?.kind === "open" && typeof data.link === "string" && data.link.startsWith("#/")) go(data.link.slice(1))
  })
  // A server that does not have the worker serves a page under development.
  afterwards(() => void workers.register(ownScript("./service-worker.js"), { scope: "./" }).catch(() => {}))
}

// Shows a notification whose click opens a place, also when no tab is left. Returns false without a worker, or if the
// browser refuses.
export async function showNotification(title: string, options: NotificationOptions, link: string): Promise<boolean> {
  const workers = navigator.serviceWorker as ServiceWorkerContainer | undefined
  try {
    const registration = await workers?.getRegistration("./")
    if (!registration?.active) return false
    await registration.showNotification(title, { ...options, data: { link } })
    return true
  } catch {
    return false
  }
}
