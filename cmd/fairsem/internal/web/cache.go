package web

import "sync"

// mostShared bounds how many pictures are kept for sharing: one can have a megabyte, and any client can request new ones.
const mostShared = 16

// cache keeps the pictures of the latest poll, so that many viewers of the same picture cost no more than one.
type cache struct {
	mu    sync.Mutex
	polls int64                    // guarded by mu
	made  map[string]func() []byte // guarded by mu
}

// get returns the result of make, which is called once for each key and poll.
func (m *cache) get(polls int64, key string, make func() []byte) []byte {
	return m.entry(polls, key, sync.OnceValue(make))()
}

func (m *cache) entry(polls int64, key string, once func() []byte) func() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if polls > m.polls || m.made == nil {
		m.polls, m.made = polls, make(map[string]func() []byte)
	}
	if polls < m.polls { // a newer poll has come
		return once
	}
	if old, ok := m.made[key]; ok {
		return old
	}
	if len(m.made) < mostShared {
		m.made[key] = once
	}
	return once
}
