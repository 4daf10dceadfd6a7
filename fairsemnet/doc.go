// Package fairsemnet limits how many network connections all processes together have open. A connection holds a unit of a
// [fairsem.Semaphore] from before it is dialled until it is closed.
//
//	connections, err := client.Semaphore("orders-db", 17) // what the database has room for
//	dialer := &fairsemnet.Dialer{Semaphore: connections}
//	config.DialFunc = dialer.DialContext // of pgx and MySQL; go-redis and net/http have such a field, too
//
// Most callers of the Dialer add TLS on top. Some, such as go-redis, clickhouse-go and franz-go, use their TLS configuration in a dialer of
// their own only: there, [Options.Dial] has to be that of a [crypto/tls.Dialer] with it, or passwords are sent without TLS.
//
// # What is promised
//
// A unit is acquired before anything is dialled. It is released when the connection is closed, or when the dial fails, once,
// however often it is closed. The release is sent right after the connection is closed; Close does not wait for Redis.
//
// If the permit is lost, the connection is closed before its unit can be granted to another process, with the exceptions that
// [fairsem.Permit.Context] has, and the errors of Read, Write and [io.Copy] are [fairsem.ErrLost]; those of [net.Buffers] and of
// methods that only a *net.UnixConn has are no more than [net.ErrClosed]. A type of Options.Dial that hides a *tls.Conn, without a method
// NetConn, is closed when its Close returns, which may wait for the peer. [Options.OnLost] can be [KeepOpen] instead.
// Closing the [fairsem.Client] ends all permits, and so closes all connections. At the end of a process close the pool, the sql.DB or the
// idle connections of the http.Client before it: a Client that is closed first releases units of connections that are still open.
//
// The wait for a unit ends with the context of the dial, and with the CallOptions of the semaphore. There is no goroutine for a
// connection, except while its permit is being released.
//
// The dial of an http.Transport does not end with its request, whose position in the queue would be one more for each request that has
// timed out. There, set [fairsem.CallOptions].MaxWait of the Semaphore, and MaxConnsPerHost.
//
// # When Redis does not answer
//
// No new connection is opened: it fails closed. Open connections live until their permits are lost, which is nine tenths of a
// TTL after the last renewal; then they are closed, and with them the statements and requests that run on them. A longer
// [fairsem.Options].TTL survives a longer outage. With [KeepOpen] they stay open, and when Redis answers again there may be more
// connections than the limit, until they are closed.
//
// # Pools
//
// An idle connection of a pool is open, so it holds a unit. A process that keeps idle connections keeps their units from others,
// for as long as it likes: bound them, as with SetMaxIdleConns and SetConnMaxIdleTime of database/sql, or MaxIdleConns and
// IdleConnTimeout of net/http. A pool that never closes an idle connection starves the processes that come after it.
//
// [Dialer.OpenDB] does better for database/sql: while another process waits, the DB closes idle connections, and released ones down to its
// fair part; no other process has to wait for unused units.
//
//	dialer := &fairsemnet.Dialer{Semaphore: connections}
//	db, err := dialer.OpenDB(connector, fairsemnet.DBOptions{MaxOpen: 10})
//
// The connector is of a driver that dials with dialer.DialContext; docs/integrations.md has those of pgx, lib/pq and MySQL.
//
// Several such DBs of one Client share its part of the limit in the same way: each counts the others as other processes.
//
// The pools of database/sql and of go-redis have a call wait for its own dial, although another connection of the pool has
// become idle meanwhile; the pool of net/http uses that one. So the maximum of a pool (SetMaxOpenConns, PoolSize) should not be above the
// limit, and a dial needs a deadline. With OpenDB, only the first calls of a process wait so. go-redis ends a dial after its DialTimeout,
// 5 s, and tries it five times.
//
// Drivers for PostgreSQL dial once more to cancel a query. With OpenDB such a dial takes no unit, so for a moment there may be more
// connections than the limit. Without OpenDB it waits for a unit, as any dial does: when queries hold the whole limit none of them can be
// canceled, and lib/pq lets a query whose context has ended go on until it is done.
//
// Where calls are to be limited rather than connections, see package fairsemhttp and [fairsem.Semaphore.Do].
//
// A connection that is never closed holds its unit until the process ends or closes its Client. The garbage collector closes a
// lost *net.TCPConn, but not one that holds a permit.
package fairsemnet
