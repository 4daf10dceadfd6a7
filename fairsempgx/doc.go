// Package fairsempgx limits how many connections the pools of all processes together open to a PostgreSQL server. It is for
// [pgxpool], and for database/sql on top of it.
//
//	connections, err := client.Semaphore("orders-db", 17) // what the server has room for
//	config, err := pgxpool.ParseConfig(url)
//	err = fairsempgx.Configure(config, connections)
//	pool, err := pgxpool.NewWithConfig(ctx, config)
//
// It is a module of its own: go get github.com/fairsem/fairsem/fairsempgx.
//
// # What is promised
//
// A connection is dialled with a permit of the semaphore, and the permit is released when the server has ended the session. So the
// server never has more sessions of these pools than the limit. A request to cancel a query needs no permit.
//
// A call waits for a connection that another call of its pool releases, or for a permit to dial one, whichever comes first. If its
// context ends before, the error has the use of the limit: 17 of 17 connections of "orders-db" are in use. A pool requests one permit
// at a time, so pools take turns in the queue of the semaphore.
//
// A pool that others wait for closes connections: first those that are idle, then those that are released, until it has its fair
// part. Idle ones that it did not need since the last check go in any case, down to MinConns. The parts are those of max-min
// fairness between processes: no process has more than another that waits, except for one connection where the limit cannot be
// divided evenly. When all have their parts, nothing is closed. A process that waits is noticed within a third of a TTL, and has
// its part within two TTLs, if no query or transaction takes longer. With fewer units than processes that wait, connections go
// round.
//
// A process can keep more than its part: its MinConns, connections in long transactions, or permits that it acquired without a pool.
// Its connections are then left out, after two thirds of a TTL without a release, and the others share the rest: each has its part of that
// within three TTLs.
//
// Several pools of one [fairsem.Client] share its part in the same way. To divide the limit between processes, pools of one process should
// have one Client: each Client counts as a process.
//
// Pools of a tenant that is at its TenantLimit share that limit. Other pools close nothing for its calls, which could not use it. While the
// name is paused, nothing is closed for others.
//
// No goroutine belongs to an open connection. A pool has one while it has connections, and one while its calls wait for a permit.
//
// # What it costs
//
// A query on a connection that the pool keeps costs a quarter of a microsecond and three allocations more, and nothing is sent to
// Redis. While others wait, a pool lists holders, waiters and tenants every third of a TTL, or four times as often while
// connections move.
//
// # Settings of the pool
//
// MaxConns bounds the connections of one process; it may be as large as the limit. MinConns is kept even while others wait, so the sum over
// all processes has to be less than the limit. MinIdleConns are opened if no call waits for free units, and closed when one does.
// MaxConnLifetime, MaxConnIdleTime, Reset and Close work as always. All hooks and tracers of the config stay, if they were set
// before [Configure]. A config is for one pool.
//
// The CallOptions of the semaphore are those of each request for a permit. MaxWait and MaxQueue end the wait of calls only while their pool
// has no connection. A pool that has one requests again, and a call waits until its context ends, or a connection is released.
//
// Connections outside of a pool, such as those of pgx.Connect, are not counted: give them the DialFunc of a fairsemnet.Dialer on
// the same semaphore. A hijacked connection counts for the limit and for MaxConns, until its session has ended.
//
// At the end of a process, close the pool before the [fairsem.Client]. A Client that is closed first interrupts queries, and it releases
// the units of sessions that the server has not ended: for a moment there may be more of them than the limit, with
// [fairsemnet.KeepOpen] until the pool is closed. Pool.Close does not wait for connections that were hijacked, or are being closed for
// other processes.
//
// # When Redis does not answer
//
// No connection is opened. Open ones live until their permits are lost, which is nine tenths of a TTL after the last renewal;
// then they are closed, and their queries fail with [fairsem.ErrLost]. A longer [fairsem.Options].TTL survives a longer outage.
// With [Options].OnLost set to [fairsemnet.KeepOpen] they stay open, and there may be more connections than the limit
// afterwards. A restart of Redis interrupts nothing.
//
// An Exec without arguments or in the simple protocol, and a Batch in QueryExecModeExec, fail with "conn closed" in pgx 5.12, as on any
// connection that breaks, and [pgconn.SafeToRetry] then says that it was not sent, though the server may have executed it. database/sql
// sends it again, up to twice.
//
// # What is not promised
//
// A process that is killed in the middle of a long query has its permit released after a TTL, but PostgreSQL notices the end of the
// client only when the query ends. Set client_connection_check_interval (PostgreSQL 14) for that. The same holds for a lost permit,
// though pgx asks the server to cancel the query then. A server that does not end a session within five seconds is not waited for; one
// that has not answered is waited for a quarter of a second, if pgx then dials another address.
//
// In the server, leave room for users that do not share the limit, such as superusers: they have
// superuser_reserved_connections, and take slots of the others when these are used up.
package fairsempgx
