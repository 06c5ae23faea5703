// The only place where the page gives a string to the browser's HTML parser or names a script: the constants of
// compiled templates, and the page's own workers.
//
// The compiler imports its runtime from this module. The page's trusted-types policy refuses every other string, so text
// of a model or a file can never become markup.

import { untrack } from "solid-js"

export * from "solid-js/web"

interface Policy {
  createHTML(html: string): string
  createScriptURL(address: string): string
}

// Only files that were built with the page may run.
function own(address: string): string {
  if (new URL(address, location.href).origin !== location.origin) throw new TypeError(`not a script of the page: ${address}`)
  return address
}

const rules: Policy = { createHTML: (html) => html, createScriptURL: own }

const types = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }).trustedTypes
const policy: Policy = types?.createPolicy("baton", rules) ?? rules

export const ownScript = (address: string) => policy.createScriptURL(address)

// Replaces Solid's function of the same name, with the same contract.
export function template(html: string, isImportNode?: boolean, isSVG?: boolean) {
  let node: Node | undefined
  const create = () => {
    const element = document.createElement("template")
    element.innerHTML = policy.createHTML(html)
    const first = element.content.firstChild as Node
    return isSVG ? (first.firstChild as Node) : first
  }
  const clone = isImportNode
    ? () => untrack(() => document.importNode((node ??= create()), true))
    : () => (node ??= create()).cloneNode(true)
  return Object.assign(clone, { cloneNode: clone })
}
