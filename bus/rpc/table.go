package rpc

// Operations returns the operations of this package. A new one is one more definition and one more
// line here. Those with a subject are the ones that the service offers.
func Operations() []*Operation {
	return append(append(callOperations(),
		&ListOffers.Operation, &ShowOffers.Operation,
		&ListTasks.Operation, &GetTask.Operation, &CancelTask.Operation, &ListEnded.Operation, &ListDead.Operation,
		&ListApprovals.Operation, &ListAllApprovals.Operation, &Approve.Operation, &Deny.Operation,
		&GetArtifact.Operation, &ArtifactLines.Operation, &GrepArtifact.Operation, &JQArtifact.Operation, &SQLArtifacts.Operation,
		&QueryArtifacts.Operation, &ListAllArtifacts.Operation, &ArtifactInfo.Operation,
		&ReadArtifact.Operation, &ArtifactRecord.Operation, &RemoveArtifact.Operation,
	), cronOperations()...)
}
