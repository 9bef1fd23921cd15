package embedded

// Break lets the server report a full disk, and fail to restart until Mend.
func (s *Server) Break() {
	s.cfg.Cert, s.cfg.Key = "missing", "missing"
	s.ns.Errorf("write: no space left on device")
}

// Mend lets the server restart again. It may run in a write of the log about the restart.
func (s *Server) Mend() { s.cfg.Cert, s.cfg.Key = "", "" }
