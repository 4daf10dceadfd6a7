/*
 * identity.pml: what fairsem does when its server is another one than before, for spin. fairsem.pml has
 * the protocol on one server; README.md beside this file says what is left out and why that is sound;
 * check.sh runs every variant.
 *
 * N clients share one name whose limit is LIMIT. Each acquires once. The server is restarted with an older
 * state or with none, or a replica that lags takes its place; a second failover brings back the first
 * server, with the state that it had. Another process only queries: status, resize, evict of an unknown id.
 *
 * The rule: a server has an identity, which every restart and every promotion changes. A script that can
 * grant anything compares it with the one in the name's meta. Where they differ, or meta is missing, the
 * name gets a new epoch, and while its grace period lasts nothing new is granted. Holders restore their
 * permits in that time, even above the limit.
 *
 * Variants, by -D:
 *   CLIENTS=n     how many clients there are (2)
 *   MISHAPS=n     how many times the server changes (2)
 *   LATE          a waiter may read an answer when the window that it would open is over; else it gives up
 *   REPLICAS      only failovers, and a client reads only what the replica has (WaitReplicas); the limit is 2
 *   SUBSCRIBE     the subscription of a client breaks and returns; else it stays, or the client polls
 *   EVICT         an operator evicts, and copies of a restore arrive late
 *   REDUCE        client 0 acquires 3 units of 3 and releases them one by one; copies of a reduce and of
 *                 a restore arrive late
 *
 * Negative controls, each of which must fail. Some would break another claim first: UNKEPT removes the claim
 * "kept", UNWEIGHED removes "weight".
 *   NO_IDENTITY      the script trusts what it finds stored                            S2
 *   LOOK_SKIPS       resize and evict do not compare                                   S2
 *   STATUS_WRITES    status reaps and grants, and does not compare                     S2
 *   RELEASE_SKIPS    release does not compare                                          S2
 *   GRANT_IN_GRACE   the grace period delays callers, but not waiters                  S2
 *   ACQUIRE_IN_GRACE the grace period delays waiters, but not callers                  S2
 *   NEW_AT_ONCE      a name without meta has no grace period                           S2
 *   KNOWN_TOO_SOON   the caller knows the server, but not for a grace period           S2
 *   BY_UPTIME        the uptime counts, of a server that was promoted just now         S2
 *   NOT_DEMOTED      the first server was a primary all the time, and comes back       S2
 *   BELIEVE_ALL      a waiter that is a holder in an older state holds                 S2
 *   CLOCK_BEHIND     a new epoch is no later than the tokens of older states           S2
 *   DISBELIEVE_ALL   REPLICAS: a waiter believes no grant from before the epoch        S5
 *   LATE_COUNTS      REPLICAS, LATE: a grant of which a waiter was notified too late is older
 *                    than the epoch in which it was notified                           S5
 *   LATE_RESTORE     EVICT, LATE: a waiter that does not believe its grant is restored to its
 *                    position, however late it was notified                            S4
 *   CUT_OFF          the grace period ends before every client has restored            S2
 *   STALE_ANSWER     an answer from before the break ends the doubt                    S2
 *   NO_POLL          SUBSCRIBE: without a subscription a client does not poll          S2
 *   NO_ASK           SUBSCRIBE: after it has subscribed a client does not query        S2
 *   MUST_FIT         a restore has to fit, in the grace period too                     kept
 *   SAME_EPOCH       what is missing counts as lost, also in a new epoch               kept
 *   NO_TOMBSTONE     EVICT: an eviction leaves no trace                                S4
 *   EVICT_OLD        EVICT: S4 is claimed also where the lease is from an older state  S4
 *   RESTORE_RAISES   REDUCE: a restore sets the weight of a holder that is there       S1
 *   REDUCE_RAISES    REDUCE: a reduce sets the weight, instead of lowering it          S1
 *   RESTORE_ALL      REDUCE: a restore has the weight that was acquired, and the
 *                    reduce is not repeated                                            weight
 *   REDUCE_ONCE      REDUCE: in a new epoch a reduce is not repeated                   weight
 *   REDUCE_CONFIRMS  REDUCE: the answer to a reduce, which renews nothing, ends doubt  S2
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#define N CLIENTS
#ifndef MISHAPS
#define MISHAPS 2
#endif

#ifdef REDUCE
#define LIMIT 3
#define weight(i) ((i) == 0 -> 3 : 2)
#elif defined(REPLICAS)
#define LIMIT 2
#define weight(i) 1
#else
#define LIMIT 1
#define weight(i) 1
#endif
#if defined(EVICT) || defined(REDUCE)
#define COPIES
#endif

mtype = { none, held, waiting, tombstone, gone, evicted };  /* ids on the server, and answers */
mtype = { idle, asking, holding, out };                     /* clients; and waiting */
mtype = { acquire, refresh, restore, requeue, reduce, release }; /* verbs; requeue: a restore of a waiter */

/* ---- The server. Ids are clients. ---- */

mtype srv[N] = none; /* the state of the id on the server */
byte  units[N];      /* its weight there */
byte  token[N];      /* of a holder: the epoch in which it was granted */
bool  old[N];        /* its deadline is from an older state: it may be over at any moment */
byte  meta;          /* identity of the server that began the epoch, which also names it; 0: missing */
bool  grace;         /* of the name: nothing new is granted */
byte  ident = 1;     /* identity of this server */
bool  ripe = true;   /* it has been the same for a grace period */
bool  promoted;      /* it was a replica, so its uptime does not count */

/* ---- The older state: that of a file, or of the other server. ---- */

mtype was[N] = none;
byte  wasunits[N];
byte  wastoken[N];
byte  wasmeta;
byte  mishaps;

/* ---- The client. ---- */

mtype phase[N] = idle;
bool  trust[N];        /* the window of the last answer is open */
byte  epoch[N];        /* the epoch in which its ticket was confirmed */
byte  late[N];         /* of a waiter: the token of a grant of which it was notified too late to use it */
byte  missing[N];      /* it is to be restored, because it was not there in this epoch; 0: it is not */
byte  doubt[N];        /* 1: it will query its ticket, as it does at intervals; 2: as soon as it can */
mtype ans[N] = none;   /* the answer in flight */
byte  ansepoch[N];
byte  anstoken[N];
bool  timely[N];       /* the window that it will open is not over yet */
bool  before[N];       /* it answers a request from before the server changed */
#ifdef SUBSCRIBE
bool  subscribed[N];
#endif
#ifdef REDUCE
byte  keeps[N];        /* units */
byte  told[N];         /* what the server has confirmed that it keeps */
byte  telling[N];      /* what the operation in flight reports; 0: nothing */
#define mine(i) keeps[i]
#else
#define mine(i) weight(i)
#endif

#ifdef COPIES
mtype copy[N] = none;  /* a request that was written off, and can still run */
byte  copyunits[N];
byte  copymissing[N];
#define copied(i) (copy[i] != none)
#else
#define copied(i) false
#endif
#ifdef EVICT
bool  put_out[N];      /* evicted, and not notified of it: not counted by S2 */
bool  stays_out[N];    /* for S4: evicted in this epoch */
#define counted(i) (phase[i] == holding && !put_out[i])
#else
#define counted(i) (phase[i] == holding)
#endif

#ifdef REPLICAS
bool  safe[N];         /* a replica has the state that its answer reports */
bool  placed;          /* client 0 was notified of its position */
bool  behind;          /* client 1 acquired after that */
#endif

hidden byte j, more, heard, window, stale, number; /* scratch of the inlines below, not part of the state */
hidden mtype got;

#ifdef REPLICAS
#define lined_up(i)  (placed && phase[i] == waiting && (srv[i] == waiting || srv[i] == none && trust[i]))
#endif
#define on_server(i) (srv[i] == held || srv[i] == waiting)
#if N == 3
#define in_use       ((srv[0] == held) * units[0] + (srv[1] == held) * units[1] + (srv[2] == held) * units[2])
#define relied_upon  (counted(0) * mine(0) + counted(1) * mine(1) + counted(2) * mine(2))
#define nobody_waits (srv[0] != waiting && srv[1] != waiting && srv[2] != waiting)
#define no_copy      (copy[0] == none && copy[1] == none && copy[2] == none)
#define all(what)    (what(0) && what(1) && what(2))
#define each(what)   what(0); what(1); what(2)
#else
#define in_use       ((srv[0] == held) * units[0] + (srv[1] == held) * units[1])
#define relied_upon  (counted(0) * mine(0) + counted(1) * mine(1))
#define nobody_waits (srv[0] != waiting && srv[1] != waiting)
#define no_copy      (copy[0] == none && copy[1] == none)
#define all(what)    (what(0) && what(1))
#define each(what)   what(0); what(1)
#endif

/* ================================ the server's scripts ================================ */

/* The identity is compared. A name without meta is new, if the caller knew the server a grace period ago,
   or if the server has been up for as long; a client that has a ticket has seen the name before. */
inline compare(verb, knew) {
#ifndef NO_IDENTITY
	if
	:: meta == 0 ->
#ifdef NEW_AT_ONCE
		grace = false
#else
		if
		:: verb != acquire && verb != release -> grace = true
		:: knew -> grace = false
#ifdef BY_UPTIME
		:: else -> grace = !ripe && !promoted
#else
		:: else -> grace = !ripe || promoted
#endif
		fi
#endif
	:: meta != 0 && meta != ident -> grace = true
	:: else
	fi;
#endif
	if
#ifdef NO_IDENTITY
	:: meta == 0 -> meta = ident
#else
	:: meta != ident -> meta = ident
#endif
	:: else
	fi
}

/* Tokens are an order: a grant in an epoch has one that is no smaller than the epoch, and smaller than every
   later one. A grant that was made without a comparison is earlier than the epoch that is due. */
#ifdef CLOCK_BEHIND
#define next_token (MISHAPS + 1)
#else
#define next_token (meta == ident -> ident : ident - 1)
#endif

inline grant(who) {
	srv[who] = held; token[who] = next_token;
#ifdef REPLICAS
	assert(who != 1 || !behind || !lined_up(0)); /* S5 */
#endif
	skip
}

/* The first waiter is granted next, or none is. Positions are not modelled: the order is that of the ids. */
inline promote() {
	j = 0;
	do
#ifdef GRANT_IN_GRACE
	:: j < N ->
#else
	:: j < N && !grace ->
#endif
		if
		:: srv[j] == waiting && in_use + units[j] <= LIMIT -> grant(j); j++
		:: srv[j] == waiting && in_use + units[j] > LIMIT -> j = N
		:: else -> j++
		fi
	:: else -> break
	od;
	skip
}

#ifdef ACQUIRE_IN_GRACE
#define may_grant true
#else
#define may_grant !grace
#endif

inline take_out(who, now) { srv[who] = now; units[who] = 0; token[who] = 0; old[who] = false }

inline expire(who) { take_out(who, none); was[who] = none; wasunits[who] = 0; wastoken[who] = 0 }

/* missed: the epoch in which a restore is due. */
inline script(who, verb, n, knew, missed) {
	more = in_use;
	if
	:: verb == release && nobody_waits -> skip /* as plain_release.lua does: it grants nothing */
#ifdef RELEASE_SKIPS
	:: verb == release -> skip
#endif
	:: else -> compare(verb, knew)
	fi;
	if
	:: verb == acquire && srv[who] == none ->
		units[who] = n;
		if
		:: nobody_waits && may_grant && in_use + n <= LIMIT -> grant(who)
		:: else -> srv[who] = waiting
		fi
	:: (verb == acquire || verb == refresh || verb == requeue) && on_server(who) ->
		old[who] = false;
#ifndef BELIEVE_ALL
		/* A waiter that does not believe its grant returns to its position, but not for a late copy. */
		if
		:: verb == requeue && srv[who] == held && missed == meta && token[who] < meta -> srv[who] = waiting; token[who] = 0
		:: else
		fi
#endif
	:: verb == requeue && srv[who] == none -> srv[who] = waiting; units[who] = n
	:: verb == restore ->
		if
		:: srv[who] == held -> /* only renewed */
			old[who] = false;
#ifdef RESTORE_RAISES
			units[who] = n
#endif
		:: srv[who] == none || srv[who] == waiting ->
			take_out(who, none); /* the token of a known holder is never compared: it is left out */
			if
#ifdef MUST_FIT
			:: in_use + n <= LIMIT -> srv[who] = held; units[who] = n
#else
			:: grace || in_use + n <= LIMIT -> srv[who] = held; units[who] = n
#endif
			:: else
			fi
		:: else
		fi
#ifdef REDUCE
	:: verb == reduce && srv[who] == held ->
#ifdef REDUCE_RAISES
		units[who] = n
#else
		if :: n < units[who] -> units[who] = n :: else fi
#endif
#endif
	:: verb == release && copied(who) -> take_out(who, tombstone) /* a copy may restore it */
	:: verb == release && !copied(who) -> take_out(who, none)
	:: else
	fi;
	promote();
#ifdef EVICT
	assert(!stays_out[who] || !on_server(who)); /* S4 */
#endif
#ifdef REPLICAS
	assert(phase[1] != holding || !behind || !lined_up(0)); /* S5 */
#endif
	assert(grace || in_use <= more || in_use <= LIMIT) /* S1 */
}

/* ==================================== the clients ==================================== */

inline no_answer(i) {
	ans[i] = none; ansepoch[i] = 0; anstoken[i] = 0; timely[i] = false; before[i] = false;
#ifdef REPLICAS
	safe[i] = false;
#endif
	skip
}

inline drop(i) {
	phase[i] = out; trust[i] = false; missing[i] = 0; doubt[i] = 0; epoch[i] = 0; late[i] = 0;
	no_answer(i);
#ifdef SUBSCRIBE
	subscribed[i] = false;
#endif
#ifdef REDUCE
	keeps[i] = 0; told[i] = 0; telling[i] = 0;
#endif
#ifdef EVICT
	put_out[i] = false;
#endif
#ifdef REPLICAS
	placed = placed && i != 0; behind = behind && placed && i != 1;
#endif
	skip
}

inline ask(i, verb, n, knew) {
	script(i, verb, n, knew, missing[i]);
	ans[i] = (on_server(i) -> srv[i] : (srv[i] == tombstone -> evicted : gone));
	ansepoch[i] = meta;
	anstoken[i] = (phase[i] != holding -> token[i] : 0);
	timely[i] = on_server(i) && verb != reduce
}

/* A client begins to rely on a permit. S2 is checked here, because no other step can break it. */
inline believe(i) {
	phase[i] = holding;
	assert(relied_upon <= LIMIT) /* S2 */
}

/* Redis has the ticket in this epoch. The state of another epoch may be older than one that was confirmed. */
inline confirm(i) {
#ifdef REDUCE
#ifdef REDUCE_ONCE
	if :: telling[i] -> told[i] = telling[i] :: else fi;
#elif defined(RESTORE_ALL)
	if :: missing[i] -> told[i] = keeps[i] :: else fi;
	if :: telling[i] -> told[i] = telling[i] :: else fi;
#else
	if :: epoch[i] != heard -> told[i] = weight(i) :: else fi;
	if :: telling[i] -> told[i] = telling[i] :: else fi;
#endif
#endif
	missing[i] = 0;
	epoch[i] = heard
}

#ifdef REDUCE
#define reducing(i) (telling[i] != 0)
#ifdef REDUCE_CONFIRMS
#define renewed(i) true
#else
#define renewed(i) (telling[i] == 0)
#endif
#else
#define reducing(i) false
#define renewed(i)  true
#endif

/* A waiter does not believe a grant that is older than the epoch in which it was confirmed: it still waited after that
   grant, so the grant is from an older state, and the units may have been granted to another client since. */
#ifdef BELIEVE_ALL
#define outlived(i) false
#elif defined(DISBELIEVE_ALL)
#define outlived(i) (phase[i] == waiting && number < heard)
#elif defined(LATE_COUNTS)
#define outlived(i) (phase[i] == waiting && number < epoch[i])
#else
#define outlived(i) (phase[i] == waiting && number < epoch[i] && number != late[i])
#endif

/* A grant of which it was notified too late may be over on the server, so it queries again. */
#ifdef LATE_RESTORE
#define may_restore true
#else
#define may_restore window
#endif

#ifdef SAME_EPOCH
#define may_be_lost(i) false
#else
#define may_be_lost(i) (!missing[i] && phase[i] != asking && epoch[i] != heard && trust[i])
#endif

/* Reads an answer. Only an answer to a request that was sent since the server changed ends the doubt. */
inline hear(i) {
	got = ans[i]; heard = ansepoch[i]; number = anstoken[i]; window = timely[i]; stale = before[i];
	no_answer(i);
	if
#ifdef STALE_ANSWER
	:: renewed(i) -> doubt[i] = 0
#else
	:: renewed(i) && !stale -> doubt[i] = 0
#endif
	:: else
	fi;
	if
	:: (got == gone || got == waiting && phase[i] == holding && !missing[i]) && may_be_lost(i) -> missing[i] = heard
	:: got == evicted -> drop(i)
	:: (got == gone || got == waiting && phase[i] == holding) && !may_be_lost(i) ->
#ifndef UNKEPT
		assert(phase[i] != holding || !trust[i]); /* kept */
#endif
		drop(i)
	:: got == held && reducing(i) ->
		if :: epoch[i] == heard || renewed(i) -> confirm(i) :: else -> skip fi
	:: got == held && !reducing(i) && outlived(i) ->
		confirm(i);
		if :: may_restore -> missing[i] = heard :: else fi
	:: got == held && !reducing(i) && !outlived(i) ->
		confirm(i);
		trust[i] = trust[i] || window;
		if
		:: phase[i] != holding && window -> late[i] = 0; believe(i)
		:: phase[i] != holding && !window -> late[i] = number; phase[i] = waiting
		:: else
		fi
	:: got == waiting && phase[i] != holding ->
		confirm(i);
		phase[i] = waiting; late[i] = 0;
#ifdef REPLICAS
		placed = placed || i == 0;
#endif
		trust[i] = trust[i] || window
	:: else
	fi;
#ifdef REDUCE
	telling[i] = 0;
#ifndef UNWEIGHED
	assert(!(phase[i] == holding && !missing[i] && told[i] == keeps[i] && srv[i] == held && epoch[i] == ident && meta == ident)
		|| units[i] == keeps[i]); /* weight */
#endif
#endif
	skip
}

#ifdef REDUCE
#define quiet(i) telling[i] = 0
#define join(i)  phase[i] = asking; keeps[i] = weight(i); told[i] = weight(i)
#else
#define quiet(i) skip
#ifdef REPLICAS
#define join(i)  behind = behind || i == 1 && phase[1] == idle && placed && phase[0] == waiting; phase[i] = asking
#else
#define join(i)  phase[i] = asking
#endif
#endif

/* A waiter that does not know the result of its restore queries its state, before it restores anything. */
inline ask_again(i) {
	if :: phase[i] == waiting -> missing[i] = 0 :: else fi
}

/* Each acquires once: another ticket of the same process is like another client. */
#define may_ask(i) ((phase[i] == idle || phase[i] == asking) && ans[i] == none)
#ifdef REPLICAS
#define lasts(i)   (safe[i] || mishaps == MISHAPS && !before[i])
#else
#define lasts(i)   true
#endif
#define has(i)     ((phase[i] == waiting || phase[i] == holding) && ans[i] == none)
#ifdef KNOWN_TOO_SOON
#define may_know true
#else
#define may_know ripe
#endif

proctype client(byte i) {
end:
	do
	/* It acquires, and repeats that while it has no answer. For a name that exists it makes no difference
	   whether the client has known the server for long. */
	:: d_step { may_ask(i) -> join(i); ask(i, acquire, weight(i), false) }
	:: d_step { may_ask(i) && may_know && meta == 0 -> join(i); ask(i, acquire, weight(i), true) }

	/* It renews its lease, at any time; and restores what is missing. */
	:: d_step { has(i) && !missing[i] -> ask(i, refresh, 0, false) }
	:: d_step { has(i) && missing[i] && phase[i] == waiting -> ask(i, requeue, mine(i), false) }
#ifdef RESTORE_ALL
	:: d_step { has(i) && missing[i] && phase[i] == holding -> ask(i, restore, weight(i), false) }
#else
	:: d_step { has(i) && missing[i] && phase[i] == holding -> ask(i, restore, mine(i), false) }
#endif

#ifdef REDUCE
	/* It releases a unit, and reports that afterwards. */
	:: d_step { phase[i] == holding && keeps[i] > 1 && i == 0 -> keeps[i]-- }
	:: d_step { has(i) && phase[i] == holding && !missing[i] && told[i] != keeps[i] ->
		telling[i] = keeps[i]; ask(i, reduce, keeps[i], false) }
#endif

	/* The answer is read, or lost. */
	:: d_step { ans[i] != none && lasts(i) -> hear(i) }
	:: d_step { ans[i] != none -> no_answer(i); quiet(i); ask_again(i) }

	/* It releases its permit, or gives up. The server receives that, or never does. */
	:: d_step { phase[i] != idle && phase[i] != out && ans[i] == none -> drop(i); script(i, release, 0, false, 0) }
	:: d_step { phase[i] != idle && phase[i] != out && ans[i] == none -> drop(i) }
#ifdef SUBSCRIBE
	:: d_step { phase[i] != idle && phase[i] != out && !subscribed[i] ->
		subscribed[i] = true;
#ifdef NO_ASK
		if :: doubt[i] == 1 -> doubt[i] = 0 :: else fi
#else
		doubt[i] = 2
#endif
	}
#endif
	od
}

/* ============================ the network, and time, of one client ============================ */

inline no_more_copy(i) { copy[i] = none; copyunits[i] = 0; copymissing[i] = 0 }

proctype world(byte i) {
end:
	do
#ifdef COPIES
	/* A request was sent, and is written off or sent again below the client. The answer to the copy
	   is not read. */
	:: d_step { phase[i] == holding && missing[i] && no_copy -> copy[i] = restore; copyunits[i] = mine(i) }
	:: d_step { phase[i] == waiting && missing[i] && no_copy -> copy[i] = requeue; copyunits[i] = mine(i); copymissing[i] = missing[i] }
#ifdef REDUCE
	:: d_step { phase[i] == holding && told[i] != keeps[i] && no_copy -> copy[i] = reduce; copyunits[i] = mine(i) }
#endif
	:: d_step { copied(i) -> script(i, copy[i], copyunits[i], false, copymissing[i]); no_more_copy(i) }
	:: d_step { copied(i) -> no_more_copy(i) }
#endif

	/* Time passes. The deadline on the server is later than the end of every window that an answer has
	   opened or will open, except for one from an older state; and when it is over, so is each earlier one.
	   A client that acquires gives up before, because its silence began earlier. What has expired is removed at once. */
#ifdef LATE
	:: d_step { trust[i] && phase[i] != waiting -> drop(i) }
	:: d_step { trust[i] && phase[i] == waiting -> trust[i] = false }
#else
	:: d_step { trust[i] -> drop(i) }
#endif
	:: d_step { !trust[i] && timely[i] -> timely[i] = false }
	:: d_step { on_server(i) && !old[i] && !trust[i] && !timely[i] && phase[i] != asking -> expire(i) }
	:: d_step { on_server(i) && old[i] -> take_out(i, none) }
	/* A tombstone outlives each client that may still query, and every restore and copy; one from an older state need not. */
	:: d_step { srv[i] == tombstone && !old[i] && !trust[i] && !timely[i] && !missing[i] && phase[i] != asking && !copied(i) ->
		expire(i) }
	:: d_step { srv[i] == tombstone && old[i] -> take_out(i, none) }

#ifdef EVICT
	:: d_step { on_server(i) ->
		put_out[i] = phase[i] != out;
#ifdef EVICT_OLD
		stays_out[i] = true;
#else
		stays_out[i] = !old[i];
#endif
		compare(acquire, false);
#ifdef NO_TOMBSTONE
		take_out(i, none);
#else
		srv[i] = tombstone; units[i] = 0; token[i] = 0;
#endif
		promote() }
#endif
	od
}

/* ================================ the servers, and processes that only query ================================ */

#define unknown(i) (srv[i] == none)

/* Each client that is alive, has a ticket, and knows that it has to query has done so since the server changed,
   and has restored what was missing. A client that does not know it cannot be waited for. */
#ifdef CUT_OFF
#define ready(i) true
#else
#define ready(i) (doubt[i] == 0 && !missing[i] && !(timely[i] && before[i]))
#endif

inline notice(i) {
	before[i] = ans[i] != none;
	if
	:: phase[i] == idle || phase[i] == out -> skip
#ifdef SUBSCRIBE
	:: phase[i] != idle && phase[i] != out && subscribed[i] -> doubt[i] = 2; subscribed[i] = false
#ifndef NO_POLL
	:: phase[i] != idle && phase[i] != out && !subscribed[i] && doubt[i] == 0 -> doubt[i] = 1
#endif
#else
	:: phase[i] != idle && phase[i] != out -> doubt[i] = 2
#endif
	:: else
	fi
}

inline load(i) {
#ifndef REPLICAS
	old[i] = was[i] != none;
#endif
	srv[i] = was[i]; units[i] = wasunits[i]; token[i] = wastoken[i]
}

inline save(i) {
	was[i] = srv[i]; wasunits[i] = units[i]; wastoken[i] = token[i];
#ifdef REPLICAS
	safe[i] = safe[i] || ans[i] != none && !before[i];
#endif
	skip
}

inline forget_file() {
	j = 0;
	do :: j < N -> was[j] = none; wasunits[j] = 0; wastoken[j] = 0; j++ :: else -> break od;
	wasmeta = 0
}

inline swap(i) {
	got = srv[i]; more = units[i]; number = token[i];
	load(i);
	was[i] = got; wasunits[i] = more; wastoken[i] = number
}

inline changed() {
	grace = false; ripe = false;
	mishaps++;
#ifdef NOT_DEMOTED
	ident = 3 - ident;
#else
	ident++;
#endif
	each(notice);
#ifdef EVICT
	j = 0;
	do :: j < N -> stays_out[j] = false; j++ :: else -> break od;
#endif
	if :: mishaps == MISHAPS -> forget_file() :: else fi
}

proctype servers() {
end:
	do
	/* A file is written, or a replica catches up. */
	:: d_step { mishaps < MISHAPS -> j = 0;
		do :: j < N -> save(j); j++ :: else -> break od;
		wasmeta = meta }
#if !defined(NOT_DEMOTED) && !defined(REPLICAS)
	/* A restart, with what is in the file; or with nothing. */
	:: d_step { mishaps < MISHAPS -> each(load); meta = wasmeta; promoted = false; changed() }
	:: d_step { mishaps < MISHAPS -> forget_file(); each(load); meta = 0; promoted = false; changed() }
#endif
	/* A replica takes over; later the server before it, with the state that it had. */
	:: d_step { mishaps < MISHAPS ->
		each(swap);
		heard = meta; meta = wasmeta; wasmeta = heard;
		promoted = true; changed() }

	/* A grace period is over: that of the name, or one since the server changed. */
	:: d_step { grace && all(ready) -> grace = false }
	:: d_step { !ripe && all(ready) -> ripe = true }
	/* Nothing is left of the name. */
	:: d_step { meta != 0 && all(unknown) -> meta = 0; grace = false }

	/* A process queries: resize, or evict of an unknown id. Status changes nothing. */
#ifdef LOOK_SKIPS
	:: d_step { promote() }
#else
	:: d_step { compare(acquire, false); promote() }
#endif
#ifdef STATUS_WRITES
	:: d_step { promote() }
#endif
	od
}

init {
	atomic {
		run servers();
		run client(0); run client(1);
		run world(0); run world(1)
#if N == 3
		; run client(2); run world(2)
#endif
	}
}
