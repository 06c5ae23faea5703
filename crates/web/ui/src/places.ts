// The places at which the user has left sessions, and the folds that were opened or closed, kept over a reload of the tab.

export interface Place {
  // The row at the upper edge, and its distance from that edge; null at the end of the session.
  key: string | null
  delta: number
  // The newest message at that time: everything after it is new.
  last: string | null
}

// The most sessions and folds that are remembered; the oldest go first.
const MAX_PLACES = 50
const MAX_FOLDS = 500
const NAME = "baton places"

interface Stored {
  places: [string, Place][]
  folds: [string, boolean][]
}

function read(): Stored {
  try {
    const { places, folds } = JSON.parse(sessionStorage.getItem(NAME) ?? "")
    return { places, folds }
  } catch {
    return { places: [], folds: [] }
  }
}

const stored = read()
const places = new Map(stored.places)
const folds = new Map(stored.folds)

function put<T>(map: Map<string, T>, key: string, value: T, most: number) {
  map.delete(key)
  map.set(key, value)
  const oldest = map.keys().next().value
  if (map.size > most && oldest !== undefined) map.delete(oldest)
}

export const placeOf = (session: string) => places.get(session)

export const setPlace = (session: string, place: Place) => put(places, session, place, MAX_PLACES)

// Tells whether a fold is open, by default or by the user's choice.
export const isUnfolded = (id: string, byDefault: boolean) => folds.get(id) ?? byDefault

export function setUnfolded(id: string, isOpen: boolean, byDefault: boolean) {
  if (isOpen === byDefault) folds.delete(id)
  else put(folds, id, isOpen, MAX_FOLDS)
}

const savers = new Set<() => void>()

// Calls the function when the page is left, before the places are stored. Returns the function that ends this.
export function onLeave(save: () => void) {
  savers.add(save)
  return () => void savers.delete(save)
}

window.addEventListener("pagehide", () => {
  for (const save of savers) save()
  try {
    sessionStorage.setItem(NAME, JSON.stringify({ places: [...places], folds: [...folds] }))
  } catch {
    // Without storage a reload shows the end of the session.
  }
})
