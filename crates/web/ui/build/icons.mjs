// Draws the page's icon in the sizes that systems want for an installed page. They accept PNG only.

import { crc32, deflateSync } from "node:zlib"

// The icon of `src/icon.svg`, in its coordinates.
const SIDE = 32
const CORNER = 8
const BACK = [0x3d, 0x5a, 0xfe]
const LINE = { from: [9, 23], to: [23, 9], half: 2 }
const DOT = { at: [9, 23], radius: 3.2 }

// Distances to an edge: negative inside.
const circle = (x, y) => Math.hypot(x - DOT.at[0], y - DOT.at[1]) - DOT.radius

function line(x, y) {
  const [ax, ay] = LINE.from
  const [dx, dy] = [LINE.to[0] - ax, LINE.to[1] - ay]
  const along = Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)))
  return Math.hypot(x - ax - along * dx, y - ay - along * dy) - LINE.half
}

function square(x, y, corner) {
  const [px, py] = [x, y].map((it) => Math.abs(it - SIDE / 2) - SIDE / 2 + corner)
  return Math.hypot(Math.max(px, 0), Math.max(py, 0)) + Math.min(Math.max(px, py), 0) - corner
}

const clamp = (value) => Math.min(1, Math.max(0, value))

// A PNG with colours and transparency. A masked icon fills its square, because the system cuts it.
export function drawIcon(size, isMasked) {
  const scale = size / SIDE
  const cover = (distance) => clamp(0.5 - distance * scale)
  const rows = Buffer.alloc(size * (size * 4 + 1))
  let at = 0
  for (let row = 0; row < size; row++) {
    rows[at++] = 0
    for (let column = 0; column < size; column++) {
      const [x, y] = [(column + 0.5) / scale, (row + 0.5) / scale]
      const white = Math.max(cover(line(x, y)), cover(circle(x, y)))
      for (const part of BACK) rows[at++] = Math.round(part + (255 - part) * white)
      rows[at++] = isMasked ? 255 : Math.round(255 * cover(square(x, y, CORNER)))
    }
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(size, 0)
  header.writeUInt32BE(size, 4)
  // Eight bits per channel, red, green, blue and alpha.
  header.set([8, 6, 0, 0, 0], 8)
  const start = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([start, chunk("IHDR", header), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))])
}

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, "latin1"), data])
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  check.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, check])
}
