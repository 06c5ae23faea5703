// Comments and viewed marks of reviews, kept in this browser like drafts.

import { type Comment, MAX_COMMENTS, fingerprint } from "./core/review.ts"
import type { Entry } from "./core/changes.ts"
import { storedBySession } from "./kept.ts"

// Sessions whose reviews are kept; the oldest go first.
const MAX_SESSIONS = 50
// Viewed files of a session.
const MAX_VIEWED = 1_000

const reviews = storedBySession<Comment[]>("review", MAX_SESSIONS)
const marks = storedBySession<Record<string, number>>("viewed", MAX_SESSIONS)

export const comments = (session: string): Comment[] => reviews.get(session) ?? []

export function putComment(session: string, comment: Comment) {
  const others = comments(session).filter((other) => other.id !== comment.id)
  reviews.set(session, [...others, comment].slice(-MAX_COMMENTS))
}

export function dropComment(session: string, id: string) {
  const left = comments(session).filter((comment) => comment.id !== id)
  reviews.set(session, left.length > 0 ? left : undefined)
}

export const dropComments = (session: string) => reviews.set(session, undefined)

const versions = new WeakMap<Entry, number>()

// Reading every character of a large review takes long, so each version is computed once, and only if it is needed.
function version(entry: Entry): number {
  const found = versions.get(entry) ?? fingerprint(entry.patch ?? `${entry.additions} ${entry.deletions}`)
  versions.set(entry, found)
  return found
}

// True if the user has viewed this version of the change.
export function isViewed(session: string, entry: Entry): boolean {
  const mark = marks.get(session)?.[entry.file]
  return mark !== undefined && mark === version(entry)
}

export function setViewed(session: string, entry: Entry, isSeen: boolean) {
  const { [entry.file]: _, ...others } = marks.get(session) ?? {}
  const kept = Object.entries(others).slice(-(MAX_VIEWED - 1))
  marks.set(session, Object.fromEntries(isSeen ? [...kept, [entry.file, version(entry)]] : kept))
}
