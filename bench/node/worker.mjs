// The worker of the bench that runs redis-semaphore as in its README: ioredis with its defaults, and a Semaphore for each
// use with its defaults (lockTimeout 10 s, refreshed; a retry every 10 ms). Only acquireTimeout is longer, because the
// bench measures waiting. The protocol is that of job.go.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'
import { Semaphore } from 'redis-semaphore'

const waitTimeout = 5_000 // ms, as in job.go
const warmUpCallers = 20
const warmUpPairs = 25

// CLOCK_MONOTONIC in ns, like history.Now. It is exact to the ns for the first 104 days after boot.
const now = () => Number(process.hrtime.bigint())
const version = name => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version
const send = message => process.stdout.write(JSON.stringify(message) + '\n')

// Timers of node have a resolution of milliseconds and may fire early. A hold must not be shorter than requested.
async function sleepUntil(at) {
  const ms = Math.floor((at - now()) / 1e6)
  if (ms > 0) await sleep(ms)
  while (now() < at) await nextTurn()
}

const nameOf = (job, g) => (job.names === 0 ? `${job.key}-${job.process}-${g}` : `${job.key}-${g % job.names}`)

async function acquireAndRelease(redis, job, name, window, outcome) {
  const asked = now()
  const semaphore = new Semaphore(redis, name, job.limit, {
    acquireTimeout: Math.max(1, (window.end - asked) / 1e6 + waitTimeout),
  })
  if (!(await semaphore.tryAcquire())) {
    if (job.journal) outcome.records.push([asked, 0, now(), 0])
    throw new Error('redis-semaphore: timed out')
  }
  if (job.journal) {
    const granted = now()
    if (job.hold > 0 && granted < window.end) await sleepUntil(granted + job.hold)
    outcome.records.push([asked, granted, now(), 0])
  }
  await semaphore.release()
  outcome.calls++
  const done = now()
  if (!job.journal && done < window.end) outcome.pairs.push(done - asked)
}

async function caller(redis, job, name, window, outcome) {
  await sleepUntil(window.start)
  for (let made = 0; now() < window.end && (job.calls === 0 || made < job.calls); made++) {
    try {
      await acquireAndRelease(redis, job, name, window, outcome)
    } catch (err) {
      outcome.failures++
      outcome.failure ||= String(err)
      await sleep(1)
    }
    if (job.pause > 0) await sleepUntil(now() + job.pause)
  }
}

async function run(redis, job, window) {
  const outcome = { calls: 0, pairs: [], records: [], failures: 0, failure: '' }
  const callers = Array.from({ length: job.goroutines }, (_, g) => caller(redis, job, nameOf(job, g), window, outcome))
  await Promise.all(callers)
  return outcome
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const job = JSON.parse((await lines.next()).value)
const [host, port] = job.addr.split(':')
const redis = new Redis({ host, port: Number(port) })

const practice = { ...job, key: `${job.key}-warm`, names: 0, goroutines: Math.min(job.goroutines, warmUpCallers), calls: warmUpPairs, hold: 0, pause: 0, journal: false }
await run(redis, practice, { start: now(), end: now() + waitTimeout * 1e6 })

send({ versions: { node: process.version, ioredis: version('ioredis'), 'redis-semaphore': version('redis-semaphore') } })
const window = JSON.parse((await lines.next()).value)
send(await run(redis, job, window))
await lines.next() // the input ends when the bench has read the figures of Redis
await redis.quit()
