// The chat services of the suite: the configuration and the markup of each.

import { freePort } from "./chats.mjs"

const unescaped = (text) =>
  text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&")

const TELEGRAM = "123456:not-a-token"
export const telegram = {
  name: "telegram",
  // The method that sends a message.
  send: "sendMessage",
  // A call that the gateway makes while it waits for messages, or for its first answer.
  receive: "getUpdates",
  // The service can delete messages.
  takesBack: true,
  secrets: [TELEGRAM],
  tokens: ["token"],
  options: () => ({ token: TELEGRAM }),
  chat: (number) => ({ chat: String(5_000 + number) }),
  settings: (fake, allow) => ({ telegram: { token: TELEGRAM, api: fake.url, allow } }),
  plain: (text) => unescaped(text.replace(/<[^>]*>/g, "")),
}

const SLACK = { botToken: "xoxb-not-a-token", appToken: "xapp-not-a-token" }
export const slack = {
  name: "slack",
  send: "chat.postMessage",
  receive: "apps.connections.open",
  takesBack: true,
  secrets: Object.values(SLACK),
  tokens: ["botToken", "appToken"],
  options: () => SLACK,
  chat: (number) => ({ chat: `D${5_000 + number}` }),
  settings: (fake, allow) => ({ slack: { ...SLACK, api: fake.url, allow } }),
  plain: unescaped,
}

// On WhatsApp, a number identifies both a user and the chat with that user.
const number = (number) => String(491_700_000_000 + number)
const WHATSAPP = { token: "EAA-not-a-token", appSecret: "not-an-app-secret", verifyToken: "not-a-verify-token" }
const port = await freePort()
export const whatsapp = {
  name: "whatsapp",
  send: "messages",
  receive: "messages",
  secrets: Object.values(WHATSAPP),
  tokens: ["token"],
  options: () => ({ ...WHATSAPP, phoneNumberID: "1001" }),
  // The operator enters the address into a form.
  connected: (fake) => fake.control("webhook", { url: `http://127.0.0.1:${port}/whatsapp` }),
  chat: (count) => ({ chat: number(count), from: number(count) }),
  stranger: { chat: number(999), from: number(999), name: "Eve" },
  allow: Array.from({ length: 60 }, (_, count) => number(count)),
  settings: (fake, allow) => ({
    listen: `127.0.0.1:${port}`,
    whatsapp: { ...WHATSAPP, phoneNumberID: "1001", api: `${fake.url}/v26.0`, allow },
  }),
  plain: (text) => text,
}
