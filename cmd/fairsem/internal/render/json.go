package render

import (
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Semaphore is a name as --json shows it. Durations are whole milliseconds. Bytes that are not UTF-8 are U+FFFD in all
// strings; names, tenants, ids and labels, which clients choose, are also there as exact bytes.
type Semaphore struct {
	Time         time.Time `json:"time"` // of the query, by the clock of the server
	Name         string    `json:"name"`
	NameBase64   []byte    `json:"name_base64,omitempty"` // only if the name is no UTF-8, which JSON cannot write
	Limit        int64     `json:"limit"`                 // in force
	Declared     int64     `json:"declared"`              // by the latest process that declared one; 0: none has
	Pinned       bool      `json:"pinned"`                // whether the limit was set by hand
	Paused       bool      `json:"paused"`                // whether it was set to 0
	Used         int64     `json:"used"`                  // units
	Holders      int64     `json:"holders"`               // permits
	Waiting      int64     `json:"waiting"`               // calls in the queue
	OldestWaitMS int64     `json:"oldest_wait_ms"`
	ExpectedMS   *int64    `json:"expected_wait_ms"` // of a call that joins the queue now, if it is first come, first served; null: not known
	NextExpiryMS int64     `json:"next_expiry_ms"`   // until the next lease ends unless it is renewed; 0: there is none
	WindowMS     int64     `json:"window_ms"`        // after which a grant of a rate expires; 0: it is no rate
	Granted      int64     `json:"granted"`          // since the name exists
	Expired      int64     `json:"expired"`          // permits since then whose lease ended before their release
}

// Ticket is the common part of holders and waiters.
type Ticket struct {
	ID          string `json:"id"`
	IDBase64    []byte `json:"id_base64,omitempty"` // like that of a name
	Label       string `json:"label"`               // "": of a process that has been silent for long
	LabelBase64 []byte `json:"label_base64,omitempty"`
	Account
	Weight      int64     `json:"weight"`
	Since       time.Time `json:"since"`         // by the clock of the server, as are the times; of a waiter less the head start
	ExpiresInMS int64     `json:"expires_in_ms"` // unless the lease is renewed
}

// Holder is a holder as --json shows it.
type Holder struct {
	Ticket
	Token   int64   `json:"token"`
	Numbers []int64 `json:"numbers,omitempty"` // of its units, where they have any
	HeldMS  int64   `json:"held_ms"`
}

// Account is the tenant that a permit or a waiter is charged to, as --json shows it.
type Account struct {
	Tenant       string `json:"tenant"` // "" where the call names none
	TenantBase64 []byte `json:"tenant_base64,omitempty"`
}

// Tenant is a tenant as --json shows it.
type Tenant struct {
	Account
	Share        int64 `json:"share"`
	Limit        int64 `json:"limit"` // most units that it may hold; 0: as many as the limit of the name
	Used         int64 `json:"used"`  // units
	Holders      int64 `json:"holders"`
	Waiting      int64 `json:"waiting"`
	OldestWaitMS int64 `json:"oldest_wait_ms"`
}

// Waiter is a waiter as --json shows it.
type Waiter struct {
	Position int `json:"position"` // in the queue, from 1
	Ticket
	WaitedMS int64 `json:"waited_ms"`
}

// SemaphoreDetail is a name with its holders and waiters as --json shows it.
type SemaphoreDetail struct {
	Semaphore
	HeldBy      []Holder `json:"held_by"` // in the order of their tokens
	MoreHolders int64    `json:"more_holders"`
	Queue       []Waiter `json:"queue"` // in its order
	MoreWaiters int64    `json:"more_waiters"`
	Tenants     []Tenant `json:"tenants"` // none if no call names one; null if they are not known
	MoreTenants int64    `json:"more_tenants"`
	Unread      bool     `json:"tenants_unread"` // there are others, which were not read
}

// NewSemaphore converts s.
func NewSemaphore(s fairsem.Status) Semaphore {
	return Semaphore{
		Time: s.At.UTC(), Name: s.Name, NameBase64: text.NotUTF8(s.Name), Limit: s.Limit, Declared: s.Declared, Pinned: s.Pinned, Paused: inspect.Paused(s),
		Used: s.Used, Holders: s.Holders, Waiting: s.Waiting, OldestWaitMS: s.OldestWait.Milliseconds(), ExpectedMS: milliseconds(s.ExpectedWait()),
		NextExpiryMS: s.NextExpiry.Milliseconds(), WindowMS: s.Window.Milliseconds(), Granted: s.Granted, Expired: s.Expired,
	}
}

func milliseconds(d time.Duration, known bool) *int64 {
	if !known {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func newTicket(t fairsem.Ticket) Ticket {
	return Ticket{
		ID: t.ID, IDBase64: text.NotUTF8(t.ID), Label: t.Label, LabelBase64: text.NotUTF8(t.Label), Account: newAccount(t.Tenant), Weight: t.Weight,
		Since: t.Since.UTC(), ExpiresInMS: t.ExpiresIn.Milliseconds(),
	}
}

// NewHolder converts t; now is the time of the server.
func NewHolder(now time.Time, t fairsem.Ticket) Holder {
	return Holder{Ticket: newTicket(t), Token: t.Token, Numbers: t.Numbers, HeldMS: inspect.Since(now, t).Milliseconds()}
}

// NewWaiter converts t at that position; now is the time of the server.
func NewWaiter(now time.Time, position int, t fairsem.Ticket) Waiter {
	return Waiter{Position: position, Ticket: newTicket(t), WaitedMS: inspect.Since(now, t).Milliseconds()}
}

func newAccount(tenant string) Account {
	return Account{Tenant: tenant, TenantBase64: text.NotUTF8(tenant)}
}

// newTenants converts t.
func newTenants(t inspect.Tenants) []Tenant {
	if t.Err != nil {
		return nil
	}
	all := make([]Tenant, len(t.All))
	for i, of := range t.All {
		all[i] = Tenant{
			Account: newAccount(of.Name), Share: of.Share, Limit: of.Limit, Used: of.Used, Holders: of.Holders, Waiting: of.Waiting,
			OldestWaitMS: of.OldestWait.Milliseconds(),
		}
	}
	return all
}

// NewSemaphoreDetail converts d.
func NewSemaphoreDetail(d inspect.Detail) SemaphoreDetail {
	o := SemaphoreDetail{
		Semaphore: NewSemaphore(d.Status), MoreHolders: d.MoreHolders, MoreWaiters: d.MoreWaiters,
		HeldBy: make([]Holder, len(d.Holders)), Queue: make([]Waiter, len(d.Waiters)),
		Tenants: newTenants(d.Tenants), MoreTenants: d.Tenants.More, Unread: d.Tenants.Unread,
	}
	o.ExpectedMS = milliseconds(expectedWait(d))
	for i, t := range d.Holders {
		o.HeldBy[i] = NewHolder(d.At, t)
	}
	for i, t := range d.Waiters {
		o.Queue[i] = NewWaiter(d.At, i+1, t)
	}
	return o
}
