// The worker of the bench that runs redis-semaphore, as its README has it: ioredis with its defaults,
// a Semaphore for each use with its defaults (lockTimeout 10 s, refreshed; tries again every 10 ms).
// Only acquireTimeout is longer, because waiting is what is measured. It speaks the protocol of job.go.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'
import { Semaphore } from 'redis-semaphore'

const patience = 5_000 // ms, as in job.go
const warmers = 20
const warmPairs = 25

// CLOCK_MONOTONIC in ns, as history.Now; exact to the ns for the first 104 days after boot.
const now = () => Number(process.hrtime.bigint())
const version = name => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version
const say = message => process.stdout.write(JSON.stringify(message) + '\n')

// Timers of node count in milliseconds, and may be early; a hold is never shorter than it was asked to be.
async function sleepUntil(at) {
  const ms = Math.floor((at - now()) / 1e6)
  if (ms > 0) await sleep(ms)
  while (now() < at) await nextTurn()
}

const nameOf = (job, g) => (job.names === 0 ? `${job.key}-${job.process}-${g}` : `${job.key}-${g % job.names}`)

async function turn(redis, job, name, window, outcome) {
  const asked = now()
  const semaphore = new Semaphore(redis, name, job.limit, {
    acquireTimeout: Math.max(1, (window.end - asked) / 1e6 + patience),
  })
  if (!(await semaphore.tryAcquire())) {
    if (job.journal) outcome.visits.push([asked, 0, now(), 0])
    throw new Error('redis-semaphore: timed out')
  }
  if (job.journal) {
    const granted = now()
    if (job.hold > 0 && granted < window.end) await sleepUntil(granted + job.hold)
    outcome.visits.push([asked, granted, now(), 0])
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
      await turn(redis, job, name, window, outcome)
    } catch (err) {
      outcome.failures++
      outcome.failure ||= String(err)
      await sleep(1)
    }
    if (job.pause > 0) await sleepUntil(now() + job.pause)
  }
}

async function work(redis, job, window) {
  const outcome = { calls: 0, pairs: [], visits: [], failures: 0, failure: '' }
  const callers = Array.from({ length: job.goroutines }, (_, g) => caller(redis, job, nameOf(job, g), window, outcome))
  await Promise.all(callers)
  return outcome
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const job = JSON.parse((await lines.next()).value)
const [host, port] = job.addr.split(':')
const redis = new Redis({ host, port: Number(port) })

const practice = { ...job, key: `${job.key}-warm`, names: 0, goroutines: Math.min(job.goroutines, warmers), calls: warmPairs, hold: 0, pause: 0, journal: false }
await work(redis, practice, { start: now(), end: now() + patience * 1e6 })

say({ versions: { node: process.version, ioredis: version('ioredis'), 'redis-semaphore': version('redis-semaphore') } })
const window = JSON.parse((await lines.next()).value)
say(await work(redis, job, window))
await lines.next() // ends when the bench has read Redis's figures
await redis.quit()
