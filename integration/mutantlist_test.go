package integration

// mutant is the removal of one safeguard.
type mutant struct {
	name     string
	file     string // from the root of the repository
	old, new string
	pkg      string // whose tests guard it
	tests    string // names, separated by |
}

// mutants lists the safeguards. For a new one, add a mutant and run make mutants.
var mutants = []mutant{
	// Publishing.
	{"a rejection is believed", "bus/publish.go", "	case errors.Is(err, jetstream.ErrMsgNotFound):\n		return errNotStored", "	case errors.Is(err, jetstream.ErrMsgNotFound):\n		return ErrSubjectExists",
		"bus", "TestPublishAfterMessageInFlightIsLost"},
	{"a repeated publish has no key", "bus/duplicate.go", "	all[jetstream.MsgIDHeader] = []string{key}", "	_, _ = key, jetstream.MsgIDHeader", "bus", "TestPublishKey|TestPublishOverBadNetwork"},
	{"a full stream looks like another error", "bus/publish.go", `strings.Contains(api.Description, "maximum bytes"), `, "", "bus", "TestPublishToFullStream|TestBatchToFullStream"},
	{"a rejected batch counts as stored", "bus/batch.go", "	if a.err == nil {\n		first :=", "	if a.err == nil || len(commit.members) > 0 {\n		first :=", "bus", "TestBatchWithConflicts|TestBatchToFullStream"},
	{"a replica that knows nothing is believed", "bus/jsapi/get.go", "		return a.GetFromLeader(ctx, stream, get)", "		return m, err", "bus/jsapi", "TestReplicaKnowsNothing"},

	// Topology.
	{"a second result is stored", "bus/topology.go", "results.MaxMsgsPerSubject, results.DiscardNewPerSubject = 1, true", "results.MaxMsgsPerSubject, results.DiscardNewPerSubject = 1, false", "bus", "TestFirstPublishWins"},
	{"a call is stored twice", "bus/topology.go", "calls.MaxMsgsPerSubject, calls.DiscardNewPerSubject = 1, true", "calls.MaxMsgsPerSubject, calls.DiscardNewPerSubject = -1, false", "bus", "TestRetryOfACallThatIsStillStored"},
	{"a full stream drops old messages", "bus/topology.go", "Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,", "Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,", "bus", "TestPublishToFullStream"},
	{"schedules expire", "bus/topology.go", "	ticks.Discard, ticks.MaxBytes = jetstream.DiscardOld, -1", "	ticks.Discard, ticks.MaxBytes, ticks.MaxAge = jetstream.DiscardOld, -1, time.Hour", "bus/heartbeat", "TestHoursOfHeartbeats|TestJumpsOfAWeek"},
	{"a lost version is taken for an unreleased one", "cmd/internal/process/dataformat.go", "bytes.Contains(text, []byte(jsapi.FormatKey))", "bytes.Contains(text, []byte(jsapi.FormatKey+\"x\"))", "cmd/internal/process", "TestLostVersionIsRefused"},
	{"a format is not checked", "bus/jsapi/format.go", "	case version > Format:", "	case version > Format+1000:", "bus", "TestUnknownFormatIsRefused"},

	// Consuming and trimming.
	{"leases are not extended", "bus/lease.go", "				l.extend(msg)", "				_ = msg", "bus", "TestLeaseIsKept"},
	{"a stop requeues nothing", "bus/consume.go", `		log.Info().AnErr("reason", verdict).Msg("interrupted by the stop; requeued")
		err = k.requeue(d)`, `		log.Info().AnErr("reason", verdict).Msg("interrupted by the stop; requeued")`, "bus", "TestStopRequeuesInterruptedMessages"},
	{"a purge removes one more", "bus/trim.go", "jetstream.WithPurgeSequence(floor+1)", "jetstream.WithPurgeSequence(floor+2)", "bus", "TestTrimBehindALongCall|TestTrimKeepsRequeuedMessages"},
	{"a purge removes other queues", "bus/trim.go", "jetstream.WithPurgeSubject(subject), ", "jetstream.WithPurgeSubject(subject[:len(t.bus.prefix)] + \".>\"), ", "bus", "TestTrimBesideAnUnservedQueue"},
	{"nothing is removed behind a long call", "bus/trim.go", "		behind, t.old = t.old, nil", "		t.old = nil", "bus", "TestTrimBehindALongCall"},
	{"a poison message is handled again", "bus/consume.go", "	case d.Final && d.Attempt > k.cfg.MaxAttempts:", "	case d.Final && d.Attempt > 1000*k.cfg.MaxAttempts:", "bus", "TestPoisonIsNotHandled"},

	// Calls.
	{"a once-only call is not claimed", "bus/worker/claim.go", "if claimed && a.once() {", "if claimed && a.once() && w == nil {", "bus/worker", "TestKillAtEachStep|TestSuspendedWorker"},
	{"a final result is not looked up", "bus/worker/resume.go", "	if len(stored) == 0 || err != nil {\n		return false, err", "	if len(stored) >= 0 || err != nil {\n		return false, err", "bus/worker", "TestKillAtEachStep|TestFinishedCallDoesNotRunAgain"},
	{"digests are not compared", "bus/task/result.go", `if digest == "" || stored == "" || digest == stored {`, "if len(digest)+len(stored) >= 0 {", "bus/worker", "TestMismatch"},
	{"giving up takes no claim", "bus/worker/deadletter.go", "	if a.once() {\n		// From here on", "	if a.once() && w == nil {\n		// From here on", "bus/worker", "TestGivingUpTakesTheClaim"},
	{"dropped claims are forgotten", "bus/worker/resume.go", "return claim, a.delivery.FirstPublished.Before(since), err", "return claim, since.IsZero(), err", "bus/worker", "TestDroppedClaim|TestDroppedClaimOfRequeuedCall"},
	{"each delivery is an attempt", "bus/worker/starts.go", "	if !a.delivery.Redelivered || delivered >", "	if delivered > 0 || delivered >", "bus/worker", "TestUnstartedDeliveriesAreNotAttempts"},
	{"no start is recorded", "bus/worker/handle.go", "		w.recordStart(ctx, a)\n	}\n\n	// 6. Run.", "	}\n\n	// 6. Run.", "bus/worker", "TestPoisonCall"},
	{"a forged result is believed", "bus/task/result.go", "	case !event.Outcome.Valid():", "	case event.Outcome == \"none\":", "bus/worker", "TestForgedResultIsReplaced|TestForgedResultInListings"},
	{"a forged result blocks its call", "bus/worker/forged.go", "	if err := task.Delete(ctx, w.bus, forged.Sequence); err != nil {", "	if err := err; err != nil {", "bus/worker", "TestForgedResultIsReplaced|TestForgedClaimIsReplaced"},
	{"an acknowledgement is a claim", "bus/task/claim.go", `c.Nonce == "" || c.Worker == ""`, "c.At.Year() > 9999", "bus/worker", "TestForgedClaimIsReplaced"},
	{"a worker answers to any subject", "bus/rpc/service.go", "	if !s.bus.IsInbox(req.Reply()) {", "	if req == nil {", "bus/rpc", "TestReplySubjects"},
	{"a client stays on an isolated server", "bus/failover.go", "		if err := b.nc.ForceReconnect(); err != nil {", "		if b.nc.IsClosed() {", "integration", "TestClientLeavesIsolatedServer"},

	// Conversations and notifications.
	{"a conversation is appended without a check", "bus/session/session.go", "Header: bus.ExpectRevision(after), ", "", "bus/session", "TestSessionsAreAppendedByOne"},
	{"a notification has no key", "bus/notify/route.go", "Key: notification.ID, ", "", "bus/notify", "TestResultTwiceNotifiesOnce"},
	{"young records are removed", "bus/retention/keeper.go", "return min(k.cfg.MinAge, k.bus.Lease())", "return 0", "bus/retention", "TestSmallStreamTakesResultsForLong"},
	{"the minimum age never gives way", "bus/retention/keeper.go", "return min(k.cfg.MinAge, k.bus.Lease())", "return k.cfg.MinAge", "bus/retention", "TestSmallStreamTakesResultsForLong"},
	{"records of calls in progress are removed", "bus/retention/trimming.go", "		case t.work.calls[record.call]:", "		case t.work == nil:", "bus/retention", "TestRecordsOfCallsInProgressStay"},
	{"a purge removes a record of an earlier round", "bus/retention/trimming.go", "		case t.held[session]:", "		case until[session] > 0:", "bus/retention", "TestRecordsOfCallsInProgressStay"},
	{"space wakes no publish", "bus/space.go", "	close(s.freed)", "", "bus/retention", "TestWaitingPublishIsWoken"},
	{"a refusal wakes no keeper", "bus/publish.go", "		b.space.refuse()\n", "", "bus/retention", "TestWaitingPublishIsWoken"},
	{"nothing looks behind a long call", "bus/consume.go", "keeper.Go(func() { k.trimmer.findBehind(work, cfg.HasEnded) })", "", "bus/worker", "TestRemoveWhatADeadWorkerSettled"},
	{"a result of another call ends a call", "bus/worker/ended.go", " || a.checkDigest(stored[0].Digest) != nil", "", "bus/worker", "TestRemoveWhatADeadWorkerSettled"},
	{"an async result ends a call", "bus/worker/ended.go", "task.Ended(stored) || ", "len(stored) > 0 || ", "bus/worker", "TestRemoveWhatADeadWorkerSettled"},

	// Disks.
	{"the server does not sync", "bus/embedded/server.go", "SyncAlways:        !cfg.NoSync,", "SyncAlways:        false,", "bus/embedded", "TestEachPublishIsSynced"},
	{"a file is not synced", "state/durable/durable.go", "	if err := temp.Sync(); err != nil {\n		return err\n	}\n", "", "state", "TestCrashStates"},
	{"a directory is not synced", "state/durable/durable.go", "	if err := d.Sync(filepath.Dir(name)); err != nil {", "	if err := error(nil); err != nil {", "state", "TestCrashStates"},
	{"the directory of artifacts is not synced", "state/durable/durable.go", `func() error { return syncDir(d.Root.OpenFile, name) }`, `func() error { return nil }`, "offload/disk", "TestDiskPutSyncsTheDirectory"},
	{"damaged blocks are read", "offload/internal/blocks/blocks.go", "	if err := r.index.Check(i, data); err != nil {\n		return nil, err\n	}\n", "", "offload/disk", "TestStore"},
	{"an unmarked store is read", "offload/disk/format.go", "	if used {", "	if used && path == \"\" {", "offload/disk", "TestUnmarkedStoreIsRefused"},
	{"the reader trusts the store", "offload/reader.go", "	if rec.Session != session {", "	if rec.Session == \"\" {", "offload", "TestReaderDoesNotTrustTheStore"},

	// Clients and programs.
	{"any Host is accepted", "bus/httpauth/guard.go", "		if !g.allowedHost(r) {", "		if r == nil {", "bus/httpauth", "TestGuard"},
	{"any token is accepted", "bus/httpauth/guard.go", "		identity, ok := g.authenticate(r)\n		if !ok {", "		identity, ok := g.authenticate(r)\n		if !ok && r == nil {", "bus/httpauth", "TestGuard"},
	{"the sandbox uses no Landlock", "tools/sandbox/internal/enter/enter_linux.go", "		landlock(s)", "		_ = s", "tools/sandbox", "TestRefuses|TestModes|TestOperatorAllowsMore"},
	{"the sandbox uses no seccomp filter", "tools/sandbox/internal/enter/enter_linux.go", `		must("install the seccomp filter", seccomp(s.Filter))`, "		_ = s.Filter", "tools/sandbox", "TestRefuses|TestNetwork"},
	{"what left the group is not killed", "tools/sandbox/internal/enter/supervise_linux.go", "	must(\"become a subreaper\", prctl(prSetChildSubreaper, 1, 0))\n", "", "tools/builtin", "TestShellKillsWhatLeftTheGroup"},
	{"only the shell itself is killed", "tools/builtin/contain_linux.go", "	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)", "	_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)", "tools/builtin", "TestShellKillsBackgroundProcesses|TestShellKillsWhatLeftTheGroup"},
}
