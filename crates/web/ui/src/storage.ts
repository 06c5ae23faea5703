// The browser's database: texts that are not sent yet, and prompts that the server has not accepted yet.
//
// It exists in every supported browser, also for pages without https. Callers treat a failure as a browser that stores
// nothing: the text then lives on the screen only.

const NAME = "baton"
const VERSION = 1
const TABLES = { drafts: "session", outbox: "id" } as const

export type Table = keyof typeof TABLES

let opened: Promise<IDBDatabase> | undefined

function database(): Promise<IDBDatabase> {
  opened ??= new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION)
    request.onupgradeneeded = () => {
      for (const [table, keyPath] of Object.entries(TABLES)) request.result.createObjectStore(table, { keyPath })
    }
    request.onsuccess = () => {
      // Another tab clears the storage or brings a newer page.
      request.result.onversionchange = () => {
        request.result.close()
        opened = undefined
      }
      resolve(request.result)
    }
    request.onerror = () => reject(request.error)
  })
  // The next call tries again.
  opened.catch(() => (opened = undefined))
  return opened
}

// Runs work in one transaction: everything it writes is stored, or nothing.
export async function change(tables: Table[], work: (store: (table: Table) => IDBObjectStore) => void): Promise<void> {
  const transaction = (await database()).transaction(tables, "readwrite")
  await new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => resolve()
    transaction.onerror = () => reject(transaction.error)
    transaction.onabort = () => reject(transaction.error)
    work((table) => transaction.objectStore(table))
  })
}

async function ask<T>(table: Table, work: (store: IDBObjectStore) => IDBRequest): Promise<T> {
  const transaction = (await database()).transaction(table, "readonly")
  return new Promise<T>((resolve, reject) => {
    const request = work(transaction.objectStore(table))
    request.onsuccess = () => resolve(request.result as T)
    request.onerror = () => reject(request.error)
  })
}

export const read = <T>(table: Table, key: string) => ask<T | undefined>(table, (store) => store.get(key))

// Number of entries, for the settings.
export const countOf = (table: Table) => ask<number>(table, (store) => store.count())

export const clearTables = () => change(["drafts", "outbox"], (store) => {
  store("drafts").clear()
  store("outbox").clear()
})

export const readAll = <T>(table: Table) => ask<T[]>(table, (store) => store.getAll())
