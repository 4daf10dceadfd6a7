/*
 * plain.pml: the scripts that are shorter because the name is plain, for spin. README.md beside this file
 * says what is left out and why that is sound; check.sh runs every variant.
 *
 * Most calls find a name where every weight is 1, the limit is known, and nothing was lost. For these there
 * are plain scripts: they read less. The field "plain" in meta says that they may run. Full scripts set it
 * last, and remove it before a write that makes it untrue. It cannot cover what changes while no script
 * runs, so a plain script checks that itself: whether an id is known, whether something has expired, and
 * whether the server is the same as before. If it must not answer, it declines, and the full script answers.
 *
 * Three calls share a name whose limit an operator lowers and raises. Which script a client sends is not
 * modelled: each sends any of them at any time. A full script may be stopped after all that it writes but
 * "plain", which it sets last. What a plain script does is compared with what the full one would do.
 *   granted    a plain script grants only what the full one would grant in the same state
 *   once       and to no id that holds, waits, or has ended
 *   conserved  it leaves no waiter that the full one would have granted what it wants
 *
 * Variants, by -D:
 *   WEIGHTED   the third call wants 2 units, which only full scripts can grant
 *
 * Negative controls, each of which must fail. UNCONSERVED removes the claim "conserved", which some break
 * first.
 *   WEIGHT_UNREAD   WEIGHTED: "plain" is set although a weight is not 1                 granted
 *   QUEUE_UNREAD    "plain" is set without its "+" although calls wait                  conserved, granted
 *   GRACE_UNREAD    "plain" is set in a grace period                                    granted
 *   LIMIT_KEPT      a new limit leaves "plain" as it is                                 conserved, granted
 *   ENDED_LATE      "plain" is removed with the last write, which may not come          conserved, granted
 *   PLUS_UNREAD     the scripts that do not know the queue run with a "+", too          granted
 *   SERVER_UNREAD   a plain script does not compare the server                          granted
 *   EXPIRED_UNREAD  the one that knows the queue does not check what has expired        conserved, granted
 *   IDS_UNREAD      a plain script does not check whether an id is known                once
 *   RELEASES_ANY    plain_release does not check whether waiters need what is free      conserved
 */

#define N     3
#define LIMIT 2
#ifdef WEIGHTED
#define weight(c) ((c) == 2 -> 2 : 1)
#else
#define weight(c) 1
#endif

mtype = { out, waiting, held, tombstone };

/* ---- What the server has. ---- */

mtype state[N] = out;
bool  expired[N];          /* the deadline of the id has passed, and no script has removed it yet */
byte  line[N];             /* the waiters, oldest first */
byte  waiters;
byte  limit = LIMIT;
byte  plain;               /* the limit in the field "plain"; 0: it is not there */
bool  plus;                /* and the "+" behind it: calls may wait */
bool  changed;             /* the server may lack the latest grants, and the name has not recorded it */
bool  grace;               /* nothing new is granted */

/* ---- Scratch of the inlines below: true, or 0, between scripts. ---- */

byte  i, j, k;
bool  known, had_queue, declined;
bool  granted = true, once = true, conserved = true; /* the claims, by name: what check.sh looks for */

/* units that are held, whether or not their leases have expired; and those that have not. */
#define units ((state[0] == held) * weight(0) + (state[1] == held) * weight(1) + (state[2] == held) * weight(2))
#define lives(c) (state[c] == held && !expired[c])
#define live ((lives(0)) * weight(0) + (lives(1)) * weight(1) + (lives(2)) * weight(2))
#define holders ((state[0] == held) + (state[1] == held) + (state[2] == held))
#define stored(c) (state[c] == held || state[c] == waiting)
#define any_expired (expired[0] || expired[1] || expired[2])
#define heavy (stored(2) && weight(2) > 1)

inline leave_line(x) {
	i = 0; j = 0;
	do
	:: i < waiters -> if :: line[i] != x -> line[j] = line[i]; j++ :: else fi; i++
	:: else -> break
	od;
	do :: waiters > j -> waiters--; line[waiters] = 0 :: else -> break od
}

inline remove(x, to) {
	if :: state[x] == waiting -> leave_line(x) :: else fi;
	state[x] = to; expired[x] = false
}

inline scratch() { i = 0; j = 0; k = 0; known = false; had_queue = false; declined = false }

/* ================================ the full scripts ================================ */

inline reap() {
	k = 0;
	do :: k < N -> if :: expired[k] -> remove(k, out) :: else fi; k++ :: else -> break od
}

inline promote() {
	do
	:: waiters > 0 && !grace && units + weight(line[0]) <= limit ->
		k = line[0];
		leave_line(k);
		state[k] = held
	:: else -> break
	od
}

inline end_plain() { plain = 0; plus = false }

/* The beginning of each: on a server that may lack grants a grace period begins. */
inline begin() {
	had_queue = waiters > 0;
	if
	:: changed -> changed = false; grace = true;
#ifndef GRACE_UNREAD
		end_plain()
#endif
	:: else
	fi
}

/* The end of each, unless it is stopped before. */
inline finish(stopped) {
	if
	:: stopped
	:: else ->
		promote();
		if
#ifndef WEIGHT_UNREAD
		:: heavy -> end_plain()
#endif
#ifndef GRACE_UNREAD
		:: grace -> end_plain()
#endif
#ifdef LIMIT_KEPT
		:: plain > 0 && plain != limit -> skip
#endif
		:: else ->
			plain = limit;
#ifdef QUEUE_UNREAD
			plus = false
#else
			plus = had_queue || waiters > 0
#endif
		fi
	fi;
	scratch()
}

inline acquire(c, stopped) {
	begin(); known = state[c] != out; reap(); promote();
	if
	:: known
	:: !known && waiters == 0 && !grace && units + weight(c) <= limit ->
#ifndef ENDED_LATE
		if :: weight(c) > 1 -> end_plain() :: else fi;
#endif
		state[c] = held
	:: else ->
#ifndef ENDED_LATE
		if :: weight(c) > 1 || !plus -> end_plain() :: else fi;
#endif
		line[waiters] = c; waiters++;
		state[c] = waiting
	fi;
	finish(stopped)
}

inline release(c, to, stopped) { begin(); reap(); remove(c, to); finish(stopped) }

inline resize(stopped) {
	begin();
#if !defined(ENDED_LATE) && !defined(LIMIT_KEPT)
	end_plain();
#endif
	limit = (limit == LIMIT -> LIMIT - 1 : LIMIT);
	reap();
	finish(stopped)
}

/* ================================ the plain scripts ================================ */

/* What they have in common: declined says that the full script must answer. */
inline read_plain(c) {
	declined = plain == 0;
#ifndef SERVER_UNREAD
	declined = declined || changed;
#endif
#ifndef IDS_UNREAD
	declined = declined || state[c] != out;
#endif
}

/* c is granted a unit. The full script would have done that: without expired permits it fits, no call waits, and
   the server knows what it has granted. */
inline check(x) {
	once = state[x] == out;
	assert(once);
	granted = !grace && !changed && live + 1 <= limit && waiters == 0;
	assert(granted)
}

/* No waiter is left to which the full script would have granted what it wants. */
inline check_rest() {
#ifndef UNCONSERVED
	conserved = waiters == 0 || grace || changed || expired[line[0]] || live + weight(line[0]) > limit;
	assert(conserved);
#endif
	scratch()
}

inline plain_acquire(c) {
	read_plain(c);
#ifndef PLUS_UNREAD
	declined = declined || plus;
#endif
	if
	:: !declined && holders + 1 <= plain -> check(c); state[c] = held
	:: else
	fi;
	scratch()
}

inline plain_release(c) {
#ifdef RELEASES_ANY
	declined = plain == 0;
#else
	declined = plain == 0 || plus;
#endif
	if
	:: !declined && state[c] == held -> remove(c, out); check_rest()
	:: else -> scratch()
	fi
}

/* It releases old, unless that is N, grants what is free, first to the waiters, and then acquires new, unless that
   is N. quiet: no call has waited for a while. */
inline plain_queue(new, old, quiet) {
	declined = plain == 0 || old < N && state[(old) % N] != held;
#ifndef SERVER_UNREAD
	declined = declined || changed;
#endif
#ifndef EXPIRED_UNREAD
	declined = declined || any_expired;
#endif
#ifndef IDS_UNREAD
	declined = declined || new < N && state[(new) % N] != out;
#endif
	if
	:: declined
	:: else ->
		if :: old < N -> remove((old) % N, out) :: else fi;
		do
		:: waiters > 0 && holders + 1 <= plain ->
			k = line[0];
			/* The full script would have granted this one, too. */
			granted = !grace && !changed && !expired[k] && live + weight(k) <= limit;
			assert(granted);
			leave_line(k);
			state[k] = held
		:: else -> break
		od;
		if
		:: new < N && waiters == 0 && holders + 1 <= plain -> check((new) % N); state[(new) % N] = held
		:: new < N && !(waiters == 0 && holders + 1 <= plain) ->
			once = state[(new) % N] == out;
			assert(once);
			plus = true;
			line[waiters] = new; waiters++;
			state[(new) % N] = waiting
		:: else
		fi;
		if :: quiet && waiters == 0 -> plus = false :: else fi;
		check_rest()
	fi;
	scratch()
}

/* ================================ clients, and the world ================================ */

proctype call(byte c) {
end:
	do
	:: d_step { state[c] == out -> acquire(c, false) }
	:: d_step { state[c] == out -> acquire(c, true) }
	:: d_step { weight(c) == 1 -> plain_acquire(c) } /* also again, and late */
	:: d_step { weight(c) == 1 -> plain_queue(c, N, false) }
	:: d_step { plain_queue(N, c, false) }
	:: d_step { plain_queue(N, c, true) }
	/* Another call takes what this one releases. */
	:: d_step { weight((c + 1) % N) == 1 -> plain_queue((c + 1) % N, c, false) }
	:: d_step { plain_release(c) }
	:: d_step { stored(c) -> release(c, out, false) }
	:: d_step { stored(c) -> release(c, out, true) }
	:: d_step { stored(c) -> release(c, tombstone, false) }
	/* Its process dies; or the time of its tombstone is over. */
	:: d_step { stored(c) && !expired[c] -> expired[c] = true }
	:: d_step { state[c] == tombstone -> state[c] = out }
	od
}

proctype world() {
end:
	do
	:: d_step { resize(false) }
	:: d_step { resize(true) }
	/* A renewal, which may be the first to find what has expired. */
	:: d_step { true -> begin(); reap(); finish(false) }
	:: d_step { !changed -> changed = true } /* a failover, or a restart */
	:: d_step { grace -> grace = false }
	od
}

init { atomic { run call(0); run call(1); run call(2); run world() } }
