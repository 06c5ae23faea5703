// Says everything loudly: what was streamed is not what is stored.

export const Rewrite = async () => ({
  "experimental.text.complete": async (_input, output) => {
    output.text = output.text.toUpperCase()
  },
})
