// The sections of the settings.

export const SECTIONS = ["looks", "keys", "notifications", "approvals", "providers", "mcp", "browsers", "storage", "about"] as const
export type Section = (typeof SECTIONS)[number]
