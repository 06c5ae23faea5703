// Turns answers into upper case, so that the stored text differs from the streamed text.

export const Rewrite = async () => ({
  "experimental.text.complete": async (_input, output) => {
    output.text = output.text.toUpperCase()
  },
})
