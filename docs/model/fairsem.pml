/*
 * fairsem.pml: the protocol of fairsem, for spin. README.md beside this file says what is left out
 * and why that is sound; check.sh runs every variant.
 *
 * Three clients share one name whose limit is 2. A client acquires, waits or holds, releases, and
 * acquires again, or crashes. The server runs one script at a time. The network loses replies and messages, and
 * delivers a request again after its sender has written it off.
 *
 * Variants, by -D:
 *   WEIGHTED    client 0 acquires 2 units, so that it can be at the head of the queue and not fit
 *   TRY         client 2 does not wait: its call fails instead (TryAcquire)
 *   HEAD_START  client 2 has so much of a head start that it comes before all waiters
 *   LOSS        the server loses all data, once, and starts a new epoch with a grace period
 *   LIVE        what the liveness claim "served" needs: clients that run are on time, and at most one
 *               reply is lost. Every message may be lost.
 *   WATCH=n     which client the liveness claim is about (0)
 *
 * Negative controls, each of which must fail:
 *   PROMOTE_SKIPS    a head that does not fit is passed over                          S5
 *   REFRESH_REVIVES  a refresh restores an expired permit                             S1
 *   NO_POLL          a waiter relies on messages alone                                served
 *   NO_OWNER_CHECK   a release removes a holder that is not the caller                S8
 *   NO_TOMBSTONE     a late copy of an acquire finds no trace of its release          S4
 *   DROP_UNSURE      a ticket is dropped although a copy of its acquire is in flight  S4
 *   NO_GRACE         a server that lost its state grants at once                      S2
 *   CUT_OFF          the grace period ends before a disconnected holder has restored  S2
 *   WAKE_NO_EPOCH    a message from before the loss counts after it: with HEAD_START  S2
 */

#define N     3
#define LIMIT 2

#ifdef WEIGHTED
#define weight(i) ((i) == 0 -> 2 : 1)
#else
#define weight(i) 1
#endif
#define units(a, what) ((a[0] == what) * weight(0) + (a[1] == what) * weight(1) + (a[2] == what) * weight(2))

/* Not every value makes sense everywhere. */
mtype = { none, held, waiting, gone, tombstone };                        /* ids on the server, and answers */
mtype = { idle, asking, holding, leaving, out, dead };                   /* clients; and waiting */
mtype = { acquire, try, refresh, release, bury, put_held, put_waiting }; /* verbs; bury: a release with a tombstone */

/* ---- The server. Ids are clients: see fresh_id. ---- */

mtype srv[N] = none;   /* the state of the id on the server */
bool  lapsed[N];       /* it has expired, and no script has removed it yet */
byte  line[N];         /* the queue: the ids that have a position, lowest position first */
byte  places;          /* how many ids have a position */
bit   epoch;           /* 1: the server has lost everything and started anew */
bool  grace;           /* grace period: nothing new is granted */

/* ---- On the wire of a client. ---- */

mtype ans[N]  = none;  /* the answer to the operation in flight; none: the script has not run */
bit   ansnew[N];       /* the answer is from the new epoch */
bool  timely[N];       /* the window that the answer will open is not over yet */
mtype copy[N] = none;  /* a request that was written off, or sent twice, and can still run */
byte  wake[N];         /* a message in flight: 1 + the epoch of the grant that it reports; 0: none */

/* ---- The client. ---- */

mtype phase[N] = idle; /* as in ticket.go; out: its ticket has ended, and the server has confirmed it */
bool  trust[N];        /* the trust window of the last answer is open: the client may rely on it */
bool  known[N];        /* it has received an answer from the new epoch */
bool  behind[N];       /* its permit or position is from the old epoch: to be restored */

byte  ahead[N];        /* for S5 only: bit j: j's position was confirmed before this client acquired */
#ifdef LIVE
#ifndef WATCH
#define WATCH 0
#endif
#define may_give_up(i) ((i) != WATCH)
byte  losses;          /* replies lost so far */
#define may_lose (losses == 0)
#define count_loss losses++
#else
#define may_give_up(i) true
#ifdef LOSS
#define may_lose (epoch == 1) /* fewer states; see README.md */
#else
#define may_lose true
#endif
#define count_loss skip
#endif

hidden byte j, k, room, head, candidate; /* scratch of the inlines below, not part of the state */
hidden byte knew, news, window;
hidden mtype got;

/* ================================ the server's scripts ================================ */

/* The queue is a list of ids instead of numbers: only the order of positions matters. */
inline leave_line(who) {
	j = 0; k = 0;
	do
	:: j < places -> if :: line[j] != who -> line[k] = line[j]; k++ :: else fi; j++
	:: else -> break
	od;
	do :: places > k -> places--; line[places] = 0 :: else -> break od;
	skip /* spin wants no loop at the end of a d_step */
}

#define has_place(who) (places > 0 && line[0] == who || places > 1 && line[1] == who || places > 2 && line[2] == who)

/* A new position is the last. A message about an older position of this id has no effect any more: the
   client compares positions, so here the message is lost. */
inline join_line(who) {
	leave_line(who);
#ifdef HEAD_START
	j = places;
	do
	:: j > 0 && who == N - 1 -> line[j] = line[j - 1]; j--
	:: else -> break
	od;
	line[j] = who; places++;
#else
	line[places] = who; places++;
#endif
	wake[who] = 0
}

/* This id was granted its permit, or has ended: no client has to be granted after it. */
inline settled(who) {
	ahead[0] = ahead[0] & ~(1 << who);
	ahead[1] = ahead[1] & ~(1 << who);
	ahead[2] = ahead[2] & ~(1 << who)
}

inline remove(who, now) {
	srv[who] = now; lapsed[who] = false;
	settled(who);
	leave_line(who)
}

inline reap() {
	head = 0;
	do
	:: head < N -> if :: lapsed[head] -> remove(head, none) :: else fi; head++
	:: else -> break
	od
}

/* Grants free units to waiters: the head of the queue is granted first, or none is. */
inline promote(caller) {
	head = 0;
	do
	:: head < places && !grace ->
		candidate = line[head];
		room = LIMIT - units(srv, held);
		if
		:: srv[candidate] != waiting -> head++ /* only where positions outlive the grant, see grant */
		:: else ->
			if
			:: weight(candidate) <= room -> grant(candidate, caller); head = 0
			:: else ->
#ifdef PROMOTE_SKIPS
				head++
#else
				break
#endif
			fi
		fi
	:: else -> break
	od
}

/* Other clients ignore a message. */
#define listens(i) (phase[i] == asking || phase[i] == waiting)

/* S5 is checked here: each client whose position was confirmed before this one acquired has its token
   already. The caller reads its own grant in the reply; if that reply is lost, its next refresh finds the
   grant. */
inline grant(who, caller) {
	srv[who] = held;
#ifdef HEAD_START
	assert(ahead[who] == 0 || who == N - 1); /* S5, except for the client with the head start */
#else
	assert(ahead[who] == 0); /* S5 */
#endif
	settled(who);
	if :: who != caller && listens(who) -> wake[who] = 1 + epoch :: else fi;
#ifndef LOSS
	leave_line(who) /* with LOSS, a client that was not notified of its grant may have to restore its position */
#endif
}

/* One script, from removing what has expired to granting. A script is atomic, and so is this. */
inline script(who, verb) {
	knew = srv[who] != none; /* read before reap: the same call does not acquire again for an id that has expired */
	reap();
	if
	:: verb == acquire && !knew ->
#ifndef LOSS
		assert(phase[who] != out); /* S4: an id that the server confirmed to have ended stays ended */
#endif
		join_line(who);
		srv[who] = waiting
	:: verb == try && !knew ->
#ifndef LOSS
		assert(phase[who] != out); /* S4 */
#endif
		promote(who);
		if
		:: units(srv, waiting) == 0 && units(srv, held) + weight(who) <= LIMIT && !grace -> grant(who, who)
		:: else
		fi
	:: verb == put_held && !knew ->
		if :: units(srv, held) + weight(who) <= LIMIT -> srv[who] = held :: else fi
	:: verb == put_waiting && !knew && has_place(who) -> srv[who] = waiting /* at its old position */
#ifdef REFRESH_REVIVES
	:: verb == refresh && srv[who] == none && phase[who] != waiting -> srv[who] = held
#endif
	:: verb == release ->
#ifdef NO_OWNER_CHECK
		if
		:: srv[who] == held -> skip
		:: srv[who] != held && srv[(who + 1) % N] == held -> srv[(who + 1) % N] = none
		:: else
		fi;
#endif
		remove(who, none)
#ifdef NO_TOMBSTONE
	:: verb == bury -> remove(who, none)
#else
	:: verb == bury -> remove(who, tombstone)
#endif
	:: else
	fi;
	promote(who);
	assert(units(srv, held) <= LIMIT) /* S1 */
}

/* ==================================== the clients ==================================== */

/* A client begins to rely on a permit. S2 is checked here, because no other step can break it. Without a loss
   of data there is the stronger claim that the server has what the client relies on. */
inline believe(i) {
	phase[i] = holding; wake[i] = 0;
#ifdef LOSS
	leave_line(i);
#else
	assert(srv[i] == held && !lapsed[i]); /* S8 */
#endif
	assert(units(phase, holding) <= LIMIT) /* S2 */
}

inline drop(i, to) {
	phase[i] = to; wake[i] = 0;
	trust[i] = false; behind[i] = false; ahead[i] = 0;
	settled(i);
#ifdef LOSS
	known[i] = false;
	leave_line(i)
#endif
}

/* After that it does not matter whether the answer in flight is late. */
inline leave(i) { phase[i] = leaving; wake[i] = 0; trust[i] = false; timely[i] = false; behind[i] = false }

inline no_answer(i) { ans[i] = none; ansnew[i] = 0; timely[i] = false }

/* The answer to an acquire, a refresh or a restore: learnLocked in state.go, case by case. */
inline hear(i) {
	got = ans[i]; window = timely[i];
	news = ansnew[i] && !known[i];
	known[i] = known[i] || ansnew[i];
	no_answer(i);
	if
	:: phase[i] == leaving && got != gone -> skip /* the caller gave up meanwhile: released next */
	:: phase[i] == leaving && got == gone ->
		if
#ifndef DROP_UNSURE
		:: copy[i] != none -> skip /* a copy of its request may arrive: buried next */
#endif
		:: else -> drop(i, out)
		fi
	:: phase[i] == holding && got != gone -> behind[i] = false /* if the answer is waiting: a message overtook it */
	:: phase[i] != leaving && got == gone ->
		if
		:: news && phase[i] != asking && trust[i] -> behind[i] = true /* not lost: the server has lost its data */
		:: else ->
			if
			:: copy[i] != none -> leave(i)
			:: else -> drop(i, out) /* not granted, or errPositionLost: it acquires again with another id */
			fi
		fi
	:: phase[i] != leaving && phase[i] != holding && got != gone ->
		phase[i] = waiting; /* also if it holds, but the answer is too old to be relied on */
		trust[i] = window;
		behind[i] = false;
		if
		:: window && got == held -> believe(i)
		:: else
		fi
	fi
}

/* Nothing is left of the id before, so the client can acquire again. The library uses another id then; here
   the slot is used again when the two cannot be confused. */
#define fresh_id(i) (srv[i] == none && copy[i] == none && ans[i] == none)

/* With LOSS each client acquires once, or there would be too many states; the one with a head start, again. */
#ifdef LOSS
#ifdef HEAD_START
#define may_ask(i) (phase[i] == idle || phase[i] == out && i == N - 1)
#else
#define may_ask(i) (phase[i] == idle)
#endif
#define unconfirmed out
#else
#define may_ask(i) (phase[i] == idle || phase[i] == out)
#define unconfirmed idle
#endif

/* j has a position and knows it. After a loss the position still counts, until the grace period is over. */
#define in_line(j) (phase[j] == waiting && (srv[j] == waiting && !lapsed[j] || grace && trust[j] && srv[j] == none))

#ifdef TRY
#define question(i) ((i) == N - 1 -> try : acquire)
#else
#define question(i) acquire
#endif

#define no_copy (copy[0] == none && copy[1] == none && copy[2] == none)

/* An operation is one step from sending until the script has run, and another until the answer is read:
   what happens between sending and running could also happen before. The window begins at sending, so it may
   be over at any time after. */
inline run_script(i, verb) {
	script(i, verb);
	ans[i] = (srv[i] == held || srv[i] == waiting -> srv[i] : gone);
	ansnew[i] = epoch;
	timely[i] = ans[i] != gone
}

proctype client(byte i) {
end:
	do
	/* It acquires, and sends that again while it has no answer. */
	:: d_step { may_ask(i) && fresh_id(i) ->
		drop(i, asking);
		ahead[i] = in_line(0) | in_line(1) << 1 | in_line(2) << 2 }
	:: d_step { phase[i] == asking && ans[i] == none -> run_script(i, question(i)) }

	/* It renews its lease, at any time. With LIVE a holder need not: its window does not end. */
#ifndef NO_POLL
	:: d_step { phase[i] == waiting && !behind[i] && ans[i] == none -> run_script(i, refresh) }
#endif
#ifndef LIVE
	:: d_step { phase[i] == holding && !behind[i] && ans[i] == none -> run_script(i, refresh) }
#endif
#ifdef LOSS
	:: d_step { phase[i] == holding && behind[i] && ans[i] == none -> run_script(i, put_held) }
	:: d_step { phase[i] == waiting && behind[i] && ans[i] == none -> run_script(i, put_waiting) }
#endif

	/* The answer is read, or lost: the client writes the operation off and stays in its phase. */
	:: d_step { ans[i] != none -> hear(i) }
	:: d_step { ans[i] != none && may_lose -> no_answer(i); count_loss }

	/* Its caller releases the permit, or gives up before. A call that does not give up must be served. */
	:: d_step { phase[i] == holding -> leave(i) }
	:: d_step { (phase[i] == asking || phase[i] == waiting) && may_give_up(i) -> leave(i) }
	/* The release is sent when nothing else is in flight: with a tombstone, if a request was written off.
	   Where no copy is left a tombstone has no purpose, so only copies are checked. */
	:: d_step { phase[i] == leaving && ans[i] == none && copy[i] == none -> script(i, release); drop(i, out) }
	:: d_step { phase[i] == leaving && ans[i] == none && copy[i] != none -> script(i, bury); drop(i, out) }
	/* The same, and the reply is lost; or the client has had no answer for a whole TTL. */
	:: d_step { phase[i] == leaving && ans[i] == none && copy[i] == none && may_lose -> script(i, release); count_loss }
	:: d_step { phase[i] == leaving && ans[i] == none && copy[i] != none && may_lose -> script(i, bury); count_loss }
	:: d_step { phase[i] == leaving && ans[i] == none && may_lose -> drop(i, unconfirmed); count_loss }

#ifndef LOSS
	/* It crashes. For the server that is the same as no answer for a whole TTL, so LOSS does without. */
	:: d_step { phase[i] != dead && may_give_up(i) ->
		no_answer(i); wake[i] = 0; known[i] = false;
		phase[i] = dead; trust[i] = false; behind[i] = false; ahead[i] = 0 }
#endif
	od
}

/* ============================ the network, and time, of one client ============================ */

/* A message about a grant that the server has lost meanwhile is ignored. */
#ifdef WAKE_NO_EPOCH
#define counts(i) true
#else
#define counts(i) (!known[i] || wake[i] == 2)
#endif

/* The deadline on the server is later than the end of every window that an answer has opened, or will open:
   windows begin when the request is sent, leases when the script runs. */
#define relied_on(i) (trust[i] || timely[i])

#ifdef LIVE
#define late(i) (phase[i] == dead || phase[i] == idle || phase[i] == leaving)
#else
#define late(i) may_lose
#endif

proctype world(byte i) {
end:
	do
	/* A request was sent, and is written off or sent again below the client: a copy of it stays in flight.
	   It runs at some time, and its answer is not read; or it is lost. A copy of a release or a refresh would
	   do nothing that the next script does not. */
#ifndef LOSS
	:: d_step { phase[i] == asking && no_copy && may_lose -> copy[i] = question(i); count_loss }
#else
	:: d_step { phase[i] == holding && behind[i] && no_copy -> copy[i] = put_held }
	:: d_step { phase[i] == waiting && behind[i] && no_copy -> copy[i] = put_waiting }
#endif
#ifdef REFRESH_REVIVES
	:: d_step { phase[i] == holding && no_copy -> copy[i] = refresh }
#endif
	:: d_step { copy[i] != none -> script(i, copy[i]); copy[i] = none }
	:: d_step { copy[i] != none -> copy[i] = none }

	/* A message arrives: noticeLocked in state.go. One that overtakes the answer to an acquire is kept, here
	   as there. Or it is lost. */
	:: d_step { wake[i] != 0 && phase[i] != asking ->
		if
		:: phase[i] == waiting && counts(i) && trust[i] -> believe(i)
		:: else
		fi;
		wake[i] = 0 }
	:: d_step { wake[i] != 0 -> wake[i] = 0 }

	/* Time passes. The window that a client relies on ends before the one that the answer to a later
	   request opens. With LIVE they do not end. */
#ifndef LIVE
	:: d_step { trust[i] && may_lose ->
		trust[i] = false; behind[i] = false;
		if :: phase[i] == holding -> leave(i) :: else fi }
	:: d_step { !trust[i] && timely[i] && may_lose -> timely[i] = false }
#endif
	:: d_step { (srv[i] == held || srv[i] == waiting) && !lapsed[i] && !relied_on(i) && late(i) -> lapsed[i] = true }
	/* A tombstone outlives every copy of the acquire that it stands for: it stays for a TTL after all of them
	   were sent. That no copy lives longer is an assumption. */
	:: d_step { srv[i] == tombstone && copy[i] == none -> srv[i] = none }
	od
}

/* ================================= the loss of all data ================================= */

#ifdef LOSS
/* What i has, or will rely on when it reads the answer in flight, and the server does not have. */
#define owed(i) ( phase[i] == holding && srv[i] != held \
	|| phase[i] == waiting && trust[i] && srv[i] == none \
	|| timely[i] && !ansnew[i] && (ans[i] == held || ans[i] == waiting))

proctype mishap() {
	d_step {
		srv[0] = none; srv[1] = none; srv[2] = none;
		lapsed[0] = false; lapsed[1] = false; lapsed[2] = false;
		epoch = 1;
#ifndef NO_GRACE
		grace = true
#endif
	};
	/* The grace period ends when each client that is connected has restored its tickets: one second is ample. Or
	   it lasts a TTL, and the windows of clients that are not connected are over before. */
	d_step {
#ifdef CUT_OFF
		true ->
#else
		!owed(0) && !owed(1) && !owed(2) ->
#endif
		grace = false;
		/* A client that was dead or disconnected, and is not back, has no position any more. */
		if :: srv[0] == none -> settled(0) :: else fi;
		if :: srv[1] == none -> settled(1) :: else fi;
		if :: srv[2] == none -> settled(2) :: else fi
	}
}
#endif

init {
	atomic {
#ifdef LOSS
		run mishap(); /* first, so that spin tries it last, when there is something to lose */
#endif
		run client(0); run client(1); run client(2);
		run world(0); run world(1); run world(2)
	}
}

#ifdef LIVE
#define wants (phase[WATCH] == asking || phase[WATCH] == waiting)
/* No call waits forever: a client that acquires is granted at some time, unless it gives up or crashes. */
ltl served { [] (wants -> <> !wants) }
#endif
