// The only place where the page gives a string to the browser's HTML parser: the constants of compiled templates.
//
// The compiler imports its runtime from this module. The page's trusted-types policy refuses every other string, so text
// of a model or a file can never become markup.

import { untrack } from "solid-js"

export * from "solid-js/web"

interface Policy {
  createHTML(html: string): string
}

const types = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }).trustedTypes
const policy: Policy = types?.createPolicy("baton", { createHTML: (html) => html }) ?? { createHTML: (html) => html }

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
