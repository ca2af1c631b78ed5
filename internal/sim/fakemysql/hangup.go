package fakemysql

// HangUp closes the connections of a process that has died. What it has sent still arrives.
func (s *Server) HangUp(client string) {
	s.mu.Lock()
	var all []*session
	for ses := range s.sessions {
		if ses.client.Name == client {
			all = append(all, ses)
		}
	}
	s.mu.Unlock()
	for _, ses := range all {
		ses.hangUp()
	}
}

// Heal lets the server learn of all connections that were lost silently.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses := range s.sessions {
		if ses.silent {
			s.close(ses)
		}
	}
}
