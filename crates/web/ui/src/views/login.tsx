// Signing in to a provider in the browser: questions, the provider's page, and the code or the wait that ends it.

import { For, Match, Show, Switch, createSignal } from "solid-js"
import type { Operations, Schemas } from "../../generated/server.ts"
import { call } from "../api.ts"
import { linkTarget, oneLine, visible } from "../plain.ts"
import { words } from "../words.ts"

export type Method = Operations["GET /provider/auth"]["answer"][string][number]
type Question = Schemas["LoginPrompt"]
type Step = { kind: "questions" } | { kind: "page"; url: string; isCode: boolean; instructions: string }

// The user signs in on another page meanwhile.
const LOGIN_MS = 10 * 60_000

// True if the answers so far make a question necessary.
function isAsked({ when }: Question, answers: Record<string, string>): boolean {
  if (!when) return true
  const isEqual = (answers[when.key] ?? "") === when.value
  return when.op === "eq" ? isEqual : !isEqual
}

export function Login(props: { provider: string; method: Method; index: number; onDone: () => void }) {
  const [step, setStep] = createSignal<Step>()
  const [answers, setAnswers] = createSignal<Record<string, string>>({})
  const [error, setError] = createSignal("")
  const attempt = (work: () => Promise<unknown>) => {
    setError("")
    void work().catch((failure) => setError(failure instanceof Error ? failure.message : String(failure)))
  }
  const questions = () => props.method.prompts ?? []
  const begin = async () => {
    const asked = questions().filter((question) => isAsked(question, answers()))
    const inputs = Object.fromEntries(asked.map(({ key }) => [key, answers()[key] ?? ""]))
    const { data } = await call("beginLogin", { in: { providerID: props.provider }, body: { method: props.index, inputs } })
    // A method that only stores a key needs no page.
    if (!data) return props.onDone()
    const { url, method, instructions } = data
    setStep({ kind: "page", url, isCode: method === "code", instructions })
    if (method === "auto") await complete()
  }
  const complete = async (code?: string) => {
    await call("completeLogin", { in: { providerID: props.provider }, body: { method: props.index, code }, deadline: LOGIN_MS })
    props.onDone()
  }
  const start = () => (questions().length > 0 ? setStep({ kind: "questions" }) : attempt(begin))
  const page = () => {
    const it = step()
    return it?.kind === "page" ? it : undefined
  }
  return (
    <div class="login">
      <Switch
        fallback={
          <button type="button" onClick={start}>
            {words.login.with(oneLine(props.method.label))}
          </button>
        }
      >
        <Match when={step()?.kind === "questions"}>
          <form
            onSubmit={(event) => {
              event.preventDefault()
              attempt(begin)
            }}
          >
            <For each={questions()}>
              {(question) => (
                <Show when={isAsked(question, answers())}>
                  <Answer question={question} onChange={(value) => setAnswers({ ...answers(), [question.key]: value })} />
                </Show>
              )}
            </For>
            <button class="primary">{words.login.next}</button>
          </form>
        </Match>
        <Match when={page()}>{(it) => <ProviderPage {...it()} onCode={(code) => attempt(() => complete(code))} />}</Match>
      </Switch>
      <Show when={error()}>
        <p class="error" role="alert">
          {error()}
        </p>
      </Show>
    </div>
  )
}

function Answer(props: { question: Question; onChange: (value: string) => void }) {
  const options = () => (props.question.type === "select" ? props.question.options : undefined)
  const hint = () => (props.question.type === "text" ? props.question.placeholder : undefined)
  return (
    <label>
      {oneLine(props.question.message)}
      <Show when={options()} fallback={<input required placeholder={hint()} onInput={(event) => props.onChange(event.target.value)} />}>
        {(all) => (
          <select required onChange={(event) => props.onChange(event.target.value)}>
            <option value="" />
            <For each={all()}>{(option) => <option value={option.value}>{oneLine(option.label)}</option>}</For>
          </select>
        )}
      </Show>
    </label>
  )
}

function ProviderPage(props: { url: string; isCode: boolean; instructions: string; onCode: (code: string) => void }) {
  const send = (event: SubmitEvent) => {
    event.preventDefault()
    props.onCode(String(new FormData(event.currentTarget as HTMLFormElement).get("code") ?? ""))
  }
  return (
    <>
      <p>{visible(props.instructions)}</p>
      <Show when={linkTarget(props.url)} fallback={<p class="error">{words.login.unsafe}</p>}>
        {(url) => (
          <a class="button" href={url().href} target="_blank" rel="noopener noreferrer" title={visible(url().href)}>
            {words.login.open} ({url().hostname})
          </a>
        )}
      </Show>
      <Show when={props.isCode} fallback={<p class="fate">{words.login.waiting}</p>}>
        <form onSubmit={send}>
          <input name="code" required autocomplete="off" aria-label={words.login.code} placeholder={words.login.code} />
          <button class="primary">{words.login.next}</button>
        </form>
      </Show>
    </>
  )
}
