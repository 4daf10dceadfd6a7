/*
 * tenants.pml: who is next where tenants share a name, for spin. fairsem.pml has the protocol of one
 * tenant; README.md beside this file says what is left out and why that is sound; check.sh runs every
 * variant.
 *
 * Three tenants share a name whose limit is LIMIT. The first has three calls, the second two, the third
 * one. A call acquires, waits, holds, releases and acquires again, forever; its process may die at any time, and
 * the next script removes what has expired. Each script is one step, as on the server.
 *
 * The scripts do not read all tenants to find which is next. They count what each tenant holds, and keep
 * a turn for each tenant whose first waiter may be granted what it wants, scored by what it holds per
 * share; only the turns of tenants that a script touches are set anew. That is modelled as turns.lua and
 * accounts.lua do it, and compared with what follows from the holders and waiters themselves. What is
 * left out: tenants at their limit have a turn behind all others.
 *
 * Variants, by -D:
 *   SHARES      the second tenant has a share of 2
 *   WEIGHTED    a call of the first tenant and one of the second want 2 units
 *   LIMITS      each call of the first tenant declares a limit of the tenant: 1, 2 or none
 *   TRY         one call of each of the first two tenants does not wait (TryAcquire)
 *   RESIZE      the limit of the name is lowered by one, and raised again
 *   LIMIT=n     the limit of the name (3)
 *   FORGET      a tenant that has nothing may be forgotten
 *   LIVE        for the liveness claim "served": no call dies, and one that waits does not give up
 *   WATCH=n     which call that is about (5)
 *
 * Negative controls, each of which must fail. UNCOUNTED removes the claim "counted", which some break first.
 *   ARRIVAL        the first waiter of all is next                               S12
 *   TIES_ARRIVAL   of tenants that hold equally little, the first waiter's       S12
 *   TIES_NAME      of tenants that hold equally little, the first by name        served, S12
 *   NEW_FIRST      of these, one that was never granted anything                 S12, FORGET: served
 *   NEW_LAST       of these, such a one comes after all that were                S12
 *   DRIFT          a release does not lower what is counted                      counted; UNCOUNTED: S12
 *   NOT_TOUCHED    a release does not set the turn of its tenant anew            S12
 *   SKIPS          a tenant whose first waiter does not fit is passed over       S12
 *   NEW_SKIPS      a new call is granted what fits, whatever other tenants wait  S12
 *   NEW_SKIPS_OWN  a new call comes before the waiters of its own tenant         S5
 *   LAST_FIRST     of the waiters of a tenant the last is next                   S5
 *   FEW_TURNS      a script reads one turn, however many units there are        conserving
 *   LIMIT_BLOCKS   LIMITS: a tenant at its limit keeps its turn                 conserving
 *   LIMIT_UNREAD   LIMITS: a new call does not check the limit of its tenant    limit
 */

#define T 3
#define C 6
#ifndef LIMIT
#define LIMIT 3
#endif
#ifndef WATCH
#define WATCH 5
#endif

#define tenant(c) ((c) < 3 -> 0 : ((c) < 5 -> 1 : 2))
#ifdef WEIGHTED
#define weight(c) ((c) == 1 || (c) == 3 -> 2 : 1)
#else
#define weight(c) 1
#endif
#ifdef SHARES
#define share(t) ((t) == 1 -> 2 : 1)
#else
#define share(t) 1
#endif
#ifdef TRY
#define waits(c) ((c) != 2 && (c) != 4)
#else
#define waits(c) true
#endif

mtype = { out, waiting, held };

/* ---- What is stored of calls. ---- */

mtype state[C] = out;
bool  expired[C];    /* its process is dead, and no script has run since */
byte  line[C];       /* the waiters, in the order of their positions, oldest first */
byte  waiters;

/* ---- What is stored of tenants. ---- */

byte  name_limit = LIMIT;
byte  counted[T];    /* the units that it holds */
bool  turn[T];       /* it is in turns */
byte  score[T];      /* and with how many units */
byte  limit[T];      /* its own; 0: none */
byte  since[T];      /* the order in which they have been granted nothing, 1 for longest; 0: nothing is known */
bool  granted[T];    /* it was granted something; else since is from when its first waiter came */
byte  latest = T;    /* the tenant that was granted something last, if it is known */

byte  ahead[C];      /* for S5 only: bit j: j, of the same tenant, waited when this call asked */

/* ---- Scratch of the inlines below, not part of the state. ---- */

hidden byte i, j, k, t, u, first, who, room, most, others, rank;
bool blocked, removed, fits, list[T], touched[T];

/* The claims, by name: what check.sh looks for in the words of spin. They are true between scripts. */
bool in_order = true, in_turn = true, within_limits = true, conserved = true, counts_hold = true;

/* ================================ what follows from the calls ================================ */

#define has(c, t) ((state[c] == held && tenant(c) == t) * weight(c))
#define units(t) (has(0, t) + has(1, t) + has(2, t) + has(3, t) + has(4, t) + has(5, t))
#define used (units(0) + units(1) + units(2))

/* head sets who to the first waiter of a tenant, C if it has none, and others to its position in the queue. */
inline head(ten) {
	who = C; others = 0; j = 0;
	do
	:: j < waiters ->
#ifdef LAST_FIRST
		if :: tenant(line[j]) == ten -> who = line[j]; others = j :: else fi;
#else
		if :: tenant(line[j]) == ten && who == C -> who = line[j]; others = j :: else fi;
#endif
		j++
	:: else -> break
	od
}

#define within(t, held, c) (limit[t] == 0 || held + weight(c) <= limit[t])

/* A tenant that is to be granted something before another: it holds less per share, or as much and has
   been granted nothing for longer. One of which nothing is known comes right before the one that was granted
   something last, after others like it. */
#define less(a, ua, b, ub) ((ua) * share(b) < (ub) * share(a))
#define equal(a, ua, b, ub) ((ua) * share(b) == (ub) * share(a))
#define NOW 255
#define without(t) (since[t] != 0 -> 2 * since[t] : (latest != T -> 2 * since[latest] - 1 : NOW))

/* S12, S5 and the limits, when c is granted what it wants. */
inline check(c) {
	in_order = ahead[c] == 0;
	assert(in_order); /* S5 within a tenant */
	within_limits = used + weight(c) <= name_limit && within(tenant(c), units(tenant(c)), c);
	assert(within_limits); /* S1, and the limit of the tenant */
	u = 0;
	do
	:: u < T ->
		truth(u);
		if
		:: u != tenant(c) && who != C && within(u, units(u), who) ->
			in_turn = !less(u, units(u), tenant(c), units(tenant(c)));
#ifndef LIVE
			in_turn = in_turn && !(equal(u, units(u), tenant(c), units(tenant(c))) && without(u) < without(tenant(c)));
#endif
			assert(in_turn) /* S12 */
		:: else
		fi;
		u++
	:: else -> break
	od
}

/* truth is head, whatever a negative control makes of that. */
inline truth(ten) {
	who = C; j = 0;
	do
	:: j < waiters -> if :: tenant(line[j]) == ten && who == C -> who = line[j] :: else fi; j++
	:: else -> break
	od
}

/* No unit stays free that the next tenant's first waiter could have. */
inline conserving() {
	u = 0; first = T;
	do
	:: u < T ->
		truth(u);
		if
		:: who != C && within(u, units(u), who) ->
			if
			:: first == T || less(u, units(u), first, units(first)) ||
				equal(u, units(u), first, units(first)) && without(u) < most -> first = u; most = without(u)
			:: else
			fi
		:: else
		fi;
		u++
	:: else -> break
	od;
	if
	:: first != T ->
		truth(first);
		conserved = used + weight(who) > name_limit;
		assert(conserved)
	:: else
	fi
}

/* ================================ the server's scripts ================================ */

/* leave_order takes a tenant out of the order, and closes the gap. */
inline leave_order(ten) {
	rank = since[ten]; since[ten] = 0; k = 0;
	do :: rank != 0 && k < T -> if :: since[k] > rank -> since[k]-- :: else fi; k++ :: else -> break od
}

/* last_rank sets rank to the one behind all others. */
inline last_rank() {
	rank = 1; k = 0;
	do :: k < T -> if :: since[k] >= rank -> rank = since[k] + 1 :: else fi; k++ :: else -> break od
}

/* join_order puts one of which nothing is known right before the one that was granted something last. */
inline join_order(ten) {
	rank = (latest != T -> since[latest] : 0);
	if :: rank == 0 -> last_rank() :: else fi;
	k = 0;
	do :: k < T -> if :: since[k] >= rank -> since[k]++ :: else fi; k++ :: else -> break od;
	since[ten] = rank
}

/* forget has nothing known of a tenant any more, unless it has something. */
inline forget(ten) {
	head(ten);
	if
	:: who == C && units(ten) == 0 ->
		leave_order(ten); granted[ten] = false;
		if :: latest == ten -> latest = T :: else fi
	:: else
	fi
}

inline leave_line(c) {
	i = 0; j = 0;
	do
	:: i < waiters -> if :: line[i] != c -> line[j] = line[i]; j++ :: else fi; i++
	:: else -> break
	od;
	do :: waiters > j -> waiters--; line[waiters] = 0 :: else -> break od
}

/* A waiter that was granted or has ended is ahead of no call. */
inline settled(c) {
	ahead[c] = 0; i = 0;
	do :: i < C -> ahead[i] = ahead[i] & ~(1 << c); i++ :: else -> break od
}

inline remove(c) {
	if
	:: state[c] == held ->
#ifndef DRIFT
		counted[tenant(c)] = counted[tenant(c)] - weight(c);
#endif
#ifndef NOT_TOUCHED
		touched[tenant(c)] = true;
#endif
	:: state[c] == waiting -> leave_line(c); touched[tenant(c)] = true
	:: else
	fi;
	state[c] = out; expired[c] = false;
	settled(c);
	if :: !granted[tenant(c)] -> forget(tenant(c)) :: else fi
}

inline reap() {
	u = 0;
	do
	:: u < C -> if :: expired[u] -> remove(u) :: else fi; u++
	:: else -> break
	od
}

/* set_turn of accounts.lua: a first waiter that can never be granted what it wants has a turn, too. Then who is it. */
inline has_turn(ten) {
	head(ten);
#ifdef LIMIT_BLOCKS
	fits = who != C
#else
	fits = who != C && (within(ten, counted[ten], who) || weight(who) > limit[ten])
#endif
}

inline settle() {
	t = 0;
	do
	:: t < T ->
		if
		:: touched[t] ->
			has_turn(t);
			turn[t] = fits;
			score[t] = (fits -> counted[t] : 0);
			touched[t] = false
		:: else
		fi;
		t++
	:: else -> break
	od
}

/* The position in the queue of the first waiter of a tenant. */
inline place(ten, to) { head(ten); to = others }

/* The same as without, as the scripts see it. */
#ifdef NEW_FIRST
#define stored_without(t) (granted[t] -> 100 + without(t) : without(t))
#elif defined(NEW_LAST)
#define stored_without(t) (granted[t] -> without(t) : (since[t] != 0 -> 100 + since[t] : NOW))
#else
#define stored_without(t) without(t)
#endif

/* precedes sets fits: whether the turn of a comes before that of b. */
inline precedes(a, b) {
	if
#ifdef ARRIVAL
	:: true -> place(a, most); place(b, others); fits = most < others
#else
	:: less(a, score[a], b, score[b]) -> fits = true
	:: less(b, score[b], a, score[a]) -> fits = false
#ifdef TIES_NAME
	:: else -> fits = a < b
#elif defined(TIES_ARRIVAL)
	:: else -> place(a, most); place(b, others); fits = most < others
#else
	:: else -> fits = stored_without(a) < stored_without(b)
#endif
#endif
	fi
}

/* take sets first to the first of the list, T if it is empty, and takes it out. */
inline take() {
	first = T; u = 0;
	do
	:: u < T ->
		if
		:: list[u] && first == T -> first = u
		:: list[u] && first != T -> precedes(u, first); if :: fits -> first = u :: else fi
		:: else
		fi;
		u++
	:: else -> break
	od;
	if :: first != T -> list[first] = false :: else fi
}

inline grant(c) {
	check(c);
	if :: state[c] == waiting -> leave_line(c) :: else fi;
	state[c] = held;
	settled(c);
	counted[tenant(c)] = counted[tenant(c)] + weight(c);
	touched[tenant(c)] = true;
	/* The tenant is now the one that was granted something last. */
	leave_order(tenant(c));
	last_rank();
	since[tenant(c)] = rank; granted[tenant(c)] = true; latest = tenant(c)
}

/* As many of the first turns as there are free units are enough: a grant makes a turn later. */
inline read_turns() {
	list[0] = turn[0]; list[1] = turn[1]; list[2] = turn[2];
	room = (name_limit > used -> name_limit - used : 0);
#ifdef FEW_TURNS
	most = 1;
#else
	most = (room > 0 -> room : 1);
#endif
	t = 0; i = most;
	touched[0] = false; touched[1] = false; touched[2] = false; /* none is, after settle: here, which are read */
	do
	:: i > 0 -> take(); if :: first != T -> touched[first] = true :: else fi; i--
	:: else -> break
	od;
	list[0] = touched[0]; list[1] = touched[1]; list[2] = touched[2];
	touched[0] = false; touched[1] = false; touched[2] = false
}

inline promote() {
	removed = true;
	do
	:: removed ->
		settle();
		removed = false; blocked = false;
		read_turns();
		do
		:: !removed && !blocked && (list[0] || list[1] || list[2]) ->
			take();
			t = first;
			has_turn(t);
			if
			:: !fits || score[t] != counted[t] -> turn[t] = false; touched[t] = true; removed = true
			:: fits && score[t] == counted[t] && limit[t] > 0 && weight(who) > limit[t] -> first = who; remove(first); removed = true
			:: else ->
				if
				:: used + weight(who) <= name_limit && (limit[t] == 0 || counted[t] + weight(who) <= limit[t]) ->
					first = who;
					grant(first);
					has_turn(t);
					if :: fits -> score[t] = counted[t]; list[t] = true :: else fi
				:: else ->
#ifdef SKIPS
					skip
#else
					blocked = true
#endif
				fi
			fi
		:: else -> break
		od;
		settle()
	:: else -> break
	od
}

/* Whether a new call is granted what is free: sets blocked if not. */
inline is_next(c) {
	blocked = used + weight(c) > name_limit;
#ifndef LIMIT_UNREAD
	blocked = blocked || !within(tenant(c), counted[tenant(c)], c);
#endif
#ifndef NEW_SKIPS_OWN
	head(tenant(c));
	blocked = blocked || who != C;
#endif
#ifndef NEW_SKIPS
	list[0] = turn[0]; list[1] = turn[1]; list[2] = turn[2];
	take();
	if
	:: blocked || first == T || first == tenant(c)
	:: else ->
		if
#ifdef ARRIVAL
		:: true -> blocked = true
#else
		:: less(first, score[first], tenant(c), counted[tenant(c)]) -> blocked = true
		:: less(tenant(c), counted[tenant(c)], first, score[first])
#ifdef TIES_NAME
		:: else -> blocked = first < tenant(c)
#elif defined(TIES_ARRIVAL)
		:: else -> blocked = true
#else
		:: else -> blocked = stored_without(first) < stored_without(tenant(c))
#endif
#endif
		fi
	fi
#endif
}

inline finish() {
	promote();
	conserving();
#ifndef UNCOUNTED
	counts_hold = counted[0] == units(0) && counted[1] == units(1) && counted[2] == units(2);
	assert(counts_hold);
#endif
	scratch()
}

/* Scratch has one value between scripts, so that it adds no states. */
inline scratch() {
	i = 0; j = 0; k = 0; rank = 0; t = 0; u = 0; first = 0; who = 0; room = 0; most = 0; others = 0; blocked = false; removed = false; fits = false
}

#define same(c, d) ((c) != (d) && tenant(c) == tenant(d) && state[d] == waiting && !expired[d])

inline ask(c) {
	reap();
	promote();
	ahead[c] = same(c, 0) | same(c, 1) << 1 | same(c, 2) << 2 | same(c, 3) << 3 | same(c, 4) << 4 | same(c, 5) << 5;
	is_next(c);
	if
	:: !blocked -> grant(c)
	:: blocked && waits(c) && !(limit[tenant(c)] > 0 && weight(c) > limit[tenant(c)]) ->
		if :: since[tenant(c)] == 0 -> join_order(tenant(c)) :: else fi;
		line[waiters] = c; waiters++;
		state[c] = waiting; touched[tenant(c)] = true
	:: else -> ahead[c] = 0 /* refused, or more than it can ever have */
	fi;
	finish()
}

inline declare(c, most_units) { limit[tenant(c)] = most_units; touched[tenant(c)] = true }

proctype call(byte c) {
end:
	do
#ifdef LIMITS
	:: d_step { state[c] == out && tenant(c) == 0 -> declare(c, 0); ask(c) }
	:: d_step { state[c] == out && tenant(c) == 0 -> declare(c, 1); ask(c) }
	:: d_step { state[c] == out && tenant(c) == 0 -> declare(c, 2); ask(c) }
	:: d_step { state[c] == out && tenant(c) != 0 -> ask(c) }
#else
	:: d_step { state[c] == out -> ask(c) }
#endif
	:: d_step { state[c] == held && !expired[c] -> reap(); remove(c); finish() }
#ifdef FORGET
	:: d_step { state[c] == held && !expired[c] -> reap(); remove(c); finish(); forget(tenant(c)); scratch() }
#endif
#ifndef LIVE
	:: d_step { state[c] == waiting && !expired[c] -> reap(); remove(c); finish() }
	/* Its process dies, and its deadline passes. */
	:: d_step { state[c] != out && !expired[c] -> expired[c] = true }
	/* The script of another call, such as a renewal. */
	:: d_step { expired[c] -> reap(); finish() }
#endif
	od
}

#ifdef RESIZE
/* An operator, again and again. */
proctype operator() {
end:
	do
	:: d_step { name_limit = (name_limit == LIMIT -> LIMIT - 1 : LIMIT); reap(); finish() }
	od
}
#endif

init { atomic {
#ifdef RESIZE
	run operator();
#endif
	 run call(0); run call(1); run call(2); run call(3); run call(4); run call(5)
} }

#ifdef LIVE
#define wants (state[WATCH] == waiting)
/* No call waits forever. */
ltl served_at_last { [] (wants -> <> !wants) }
#endif
