package fairsempgx_test

import (
	"context"
	"database/sql"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/redistest"
)

// fairsemnet.Dialer.OpenDB is tested here, because here is a real database.

// db returns a DB of another process, and how many connections it has dialled.
func (w *world) db(limit int64, most int) (*sql.DB, *atomic.Int64) {
	w.Helper()
	return w.dbOf(openDB, limit, most)
}

type opener func(s *fairsem.Semaphore, url string, most int, dials *atomic.Int64) (*sql.DB, error)

// dbOf is db with a driver.
func (w *world) dbOf(open opener, limit int64, most int) (*sql.DB, *atomic.Int64) {
	w.Helper()
	return w.dbOn(w.Semaphore(limit), open, most)
}

// dbOn is dbOf for the process of a semaphore.
func (w *world) dbOn(s *fairsem.Semaphore, open opener, most int) (*sql.DB, *atomic.Int64) {
	w.Helper()
	dials := new(atomic.Int64)
	db, err := open(s, w.server.URL()+"&application_name="+url.QueryEscape(w.application()), most, dials)
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, db.Close()) })
	return db, dials
}

// conns takes that many connections at once.
func (w *world) conns(db *sql.DB, n int) (all []*sql.Conn) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for range n {
		c, err := db.Conn(ctx)
		require.NoError(w, err)
		all = append(all, c)
	}
	return all
}

func closeAll(t testing.TB, all []*sql.Conn) {
	t.Helper()
	for _, c := range all {
		require.NoError(t, c.Close())
	}
}

// eachDriver runs a test with each driver.
func eachDriver(t *testing.T, test func(w *world, open opener)) {
	for name, open := range map[string]opener{"pgx": openDB, "pq": openPQ} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.TTL = 5 * time.Second
			test(w, open)
		})
	}
}

func TestDBClosesIdleConnectionsWhenAnotherProcessWaits(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		idle, dials := w.dbOf(open, 4, 4)
		closeAll(w, w.conns(idle, 4))
		assert.Equal(w, 4, idle.Stats().Idle)

		other, _ := w.dbOf(open, 4, 4)
		taken := w.conns(other, 4) // they wait until each of the four was idle for a third of a TTL
		assert.Zero(w, idle.Stats().OpenConnections)
		closeAll(w, taken)

		assert.Equal(w, int64(4), dials.Load())
		closeAll(w, w.conns(idle, 1))
		w.Eventually(func() bool { return idle.Stats().MaxOpenConnections == 4 }, "the DB is not given back what it may open")
	})
}

func TestDBClosesIdleConnectionsWhenAnotherDBOfTheProcessWaits(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		s := w.Semaphore(4)
		idle, _ := w.dbOn(s, open, 4)
		closeAll(w, w.conns(idle, 4))
		other, _ := w.dbOn(s, open, 4)
		closeAll(w, w.conns(other, 4))
		closeAll(w, w.conns(idle, 4)) // and the other way round
	})
}

func TestConnectionsThatADriverForgetsHoldNoUnits(t *testing.T) {
	t.Run("pq that prefers TLS", func(t *testing.T) {
		w := newWorld(t)
		db, dials := w.dbOf(func(s *fairsem.Semaphore, url string, most int, dials *atomic.Int64) (*sql.DB, error) {
			return openPQ(s, strings.Replace(url, "sslmode=disable", "sslmode=prefer", 1), most, dials)
		}, 1, 1)
		closeAll(t, w.conns(db, 1)) // it waited for its own unit
		assert.Equal(t, int64(2), dials.Load(), "the server has no TLS")
	})
	t.Run("pgx with an AfterConnect that fails", func(t *testing.T) {
		w := newWorld(t)
		db, _ := w.dbOf(func(s *fairsem.Semaphore, url string, most int, _ *atomic.Int64) (*sql.DB, error) {
			config, err := pgx.ParseConfig(url)
			require.NoError(t, err)
			dialer := &fairsemnet.Dialer{Semaphore: s}
			config.DialFunc = dialer.DialContext
			return dialer.OpenDB(stdlib.GetConnector(*config, stdlib.OptionAfterConnect(func(context.Context, *pgx.Conn) error {
				return io.ErrUnexpectedEOF
			})), fairsemnet.DBOptions{MaxOpen: most})
		}, 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			require.ErrorIs(t, db.PingContext(ctx), io.ErrUnexpectedEOF)
		}
	})
}

// load runs queries from that many goroutines until the test ends, and counts those of each. None may fail.
func (w *world) load(db *sql.DB, n int) []atomic.Int64 {
	return w.loadOf(func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "SELECT pg_sleep(0.002)")
		return err
	}, n)
}

// loadOf is load for any query.
func (w *world) loadOf(query func(context.Context) error, n int) []atomic.Int64 {
	queries := make([]atomic.Int64, n)
	ctx, cancel := context.WithCancel(w.Context())
	var all sync.WaitGroup
	for i := range queries {
		all.Go(func() {
			for ctx.Err() == nil {
				one, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := query(one)
				cancel()
				if !assert.NoError(w, err) {
					return
				}
				queries[i].Add(1)
			}
		})
	}
	w.Cleanup(func() { cancel(); all.Wait() })
	return queries
}

// eventuallyAll waits until each goroutine has done that many queries.
func (w *world) eventuallyAll(queries []atomic.Int64, n int64, why string) {
	w.Helper()
	for i := range queries {
		w.Eventually(func() bool { return queries[i].Load() >= n }, why)
	}
}

// lib/pq keeps a connection, except after errors of certain types. On one that is kept after half of an answer every later query fails.
func TestConnectionOfPQThatWasLostDuringAQueryIsNoLongerUsed(t *testing.T) {
	w := newWorld(t)
	db, _ := w.dbOf(openPQ, 1, 1)
	require.ErrorIs(t, w.during(func(sleep string) error {
		_, err := db.ExecContext(t.Context(), sleep)
		return err
	}, func() { w.Evict(w.Semaphore(1)) }), fairsem.ErrLost)
	_, err := db.ExecContext(t.Context(), "SELECT 1")
	assert.NoError(t, err)
}

// The drivers dial once more to cancel a query. The units that such a dial would wait for are those of the queries.
func TestDeadlineOfAQueryIsKeptWhileQueriesUseUpTheLimit(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		db, _ := w.dbOf(open, 1, 1)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		err := w.during(func(sleep string) error {
			_, err := db.ExecContext(ctx, sleep)
			return err
		}, cancel)
		require.Error(w, err)
		next, stop := context.WithTimeout(w.Context(), time.Minute)
		defer stop()
		_, err = db.ExecContext(next, "SELECT 1")
		require.NoError(w, err)
		w.Eventually(func() bool { return w.sessions() <= 1 }, "the server still runs the query")
	})
}

// pgx replaces an error whose chain has a net.Error of a timeout by one that says no more than that.
func TestDriversShowWhyADialWaitedInVain(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		s := w.Semaphore(1)
		defer w.Occupy(s, 1)()
		db, _ := w.dbOf(open, 1, 1)
		shows := func(why string) {
			w.Eventually(func() bool { // a busy machine has no time to query the units in use
				ctx, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
				defer cancel()
				_, err := db.ExecContext(ctx, "SELECT 1")
				assert.ErrorIs(w, err, context.DeadlineExceeded)
				return strings.Contains(err.Error(), why)
			}, "the error does not say why")
		}
		shows("1 of 1 connections of")
		require.NoError(w, s.SetLimit(w.Context(), 0))
		shows("is paused")
	})
}

func TestDriversShowThatRedisDoesNotAnswer(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		r := redistest.NewServer(w)
		w.Redis = r.Addr()
		db, _ := w.dbOf(open, 1, 1)
		require.NoError(w, r.Kill())
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		_, err := db.ExecContext(ctx, "SELECT 1")
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.ErrorIs(w, err, fairsem.ErrUnavailable)
		require.NoError(w, r.Restart()) // Close of the Client waits for the place in the queue to be given up
	})
}

// The statement of doc.go on Exec without arguments is about pgx: when this test fails pgx does better, and doc.go can say less.
func TestExecWithoutArgumentsOnALostConnectionIsSaidNotToHaveBeenSent(t *testing.T) {
	w := newWorld(t)
	p := w.pool(w.Semaphore(1), 1)
	err := w.during(func(sleep string) error {
		_, err := p.Exec(t.Context(), sleep)
		return err
	}, func() { w.Evict(w.Semaphore(1)) })
	assert.True(t, pgconn.SafeToRetry(err), err)
	assert.NotErrorIs(t, err, fairsem.ErrLost)
}

func TestBusyDBGivesAnotherProcessItsPart(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		busy, _ := w.dbOf(open, 4, 4)
		w.load(busy, 8)
		w.Eventually(func() bool { return busy.Stats().OpenConnections == 4 }, "one DB does not use the limit")
		other, _ := w.dbOf(open, 4, 4)
		closeAll(w, w.conns(other, 2))
	})
}

// Otherwise calls that found no idle connection would wait for their own dials for as long as others take turns with the open ones.
func TestNoCallWaitsForItsDialWhileOthersTakeTurnsWithTheOpenConnections(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	db, _ := w.db(2, 10)
	w.eventuallyAll(w.load(db, 8), 5, "a call waits for its dial")
}

// A DB has a call that found no idle connection wait for its own dial, also when others are idle again.
func TestCallThatDialsIsGivenTheUnitOfAnIdleConnectionOfItsDB(t *testing.T) {
	eachDriver(t, func(w *world, open opener) {
		other, _ := w.dbOf(open, 2, 1)
		defer closeAll(w, w.conns(other, 1))
		db, _ := w.dbOf(open, 2, 2)
		idle := w.conns(db, 1)
		dialled := w.dials(db, 2)
		closeAll(w, idle)
		assert.NoError(w, <-dialled)
	})
}

func TestCallThatDialsIsGivenTheUnitOfAConnectionThatOthersOfItsDBUseAllTheTime(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	db, _ := w.db(1, 2)
	first := w.conns(db, 1)
	dialled := w.dials(db, 1)
	w.load(db, 2)
	closeAll(w, first)
	assert.NoError(t, <-dialled)
}

// dials has a call take a connection of its own, and returns when it waits. The channel brings the error once it has had one.
func (w *world) dials(db *sql.DB, limit int64) <-chan error {
	w.Helper()
	ended := make(chan error, 1)
	go func() { // ends within a minute
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := db.Conn(ctx)
		if err == nil {
			err = c.Close()
		}
		ended <- err
	}()
	s := w.Semaphore(limit)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the call does not dial")
	return ended
}

func TestDBsTakeTurnsIfThereAreFewerUnitsThanProcesses(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	var all [][]atomic.Int64
	for range 3 {
		db, _ := w.db(1, 2)
		all = append(all, w.load(db, 2))
	}
	for _, queries := range all {
		w.eventuallyAll(queries, 1, "a process does no queries")
	}
	before := all[0][0].Load()
	w.eventuallyAll(all[0][:1], before+10, "the first process had one turn")
}

func TestProcessesWithDatabaseSQLShareTheSlotsOfADatabase(t *testing.T) {
	f := newFleet(t)
	f.order.SQL = true
	f.order.Limit = slots/2 + 1 // sessions end after their connections, on a busy machine some time after
	o := f.observe()
	all := f.startAll(2)
	f.eventually(func() bool { _, n := o.sessions(); return n >= int(f.order.Limit) }, "two pools do not use the limit")
	all = append(all, f.start())
	part := int(f.order.Limit) / len(all)
	f.eventually(func() bool { now, _ := o.sessions(); return now[all[2].name] >= part }, "the third process does not get its part")
	f.awaitQueries(all)
	f.kill(all[0])
	f.awaitQueries(all[1:])
	for _, m := range all[1:] {
		f.stop(m)
	}
	f.noneFailed(all, "all the time")
	f.neverTooMany(o)
}
