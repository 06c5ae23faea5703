// The sign-in of a server with a password. It lies over the page, so that nothing typed is lost.

import { Show, createSignal, onMount } from "solid-js"
import { call } from "../api.ts"
import { words } from "../words.ts"

export function SignIn(props: { onDone: () => void }) {
  const [error, setError] = createSignal("")
  let dialog!: HTMLDialogElement
  onMount(() => dialog.showModal())
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.target as HTMLFormElement)
    const field = (name: string) => String(form.get(name) ?? "")
    const body = { username: field("username"), password: field("password"), path: location.pathname }
    try {
      await call("login", { body })
      setError("")
      props.onDone()
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure))
    }
  }
  return (
    <dialog ref={dialog} class="signin" aria-label={words.signIn} onCancel={(event) => event.preventDefault()}>
      <form onSubmit={(event) => void submit(event)}>
        <h1>Baton</h1>
        <p>{words.signInText}</p>
        <label>
          {words.user}
          <input name="username" autocomplete="username" value="opencode" />
        </label>
        <label>
          {words.password}
          <input name="password" type="password" autocomplete="current-password" required autofocus />
        </label>
        <Show when={error()}>
          <p class="error" role="alert">
            {error()}
          </p>
        </Show>
        <button class="primary">{words.signIn}</button>
      </form>
    </dialog>
  )
}
