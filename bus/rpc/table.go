package rpc

// Operations returns all operations of the service. A new one is one more definition and one more
// line here.
func Operations() []*Operation {
	return append(append(callOperations(),
		&ListOffers.Operation, &ShowOffers.Operation,
		&ListTasks.Operation, &GetTask.Operation, &CancelTask.Operation,
		&ListApprovals.Operation, &ListAllApprovals.Operation, &Approve.Operation, &Deny.Operation,
		&GetArtifact.Operation, &ArtifactLines.Operation, &GrepArtifact.Operation, &JQArtifact.Operation, &SQLArtifacts.Operation,
		&QueryArtifacts.Operation, &ListAllArtifacts.Operation, &ArtifactInfo.Operation,
		&ReadArtifact.Operation, &ArtifactRecord.Operation, &RemoveArtifact.Operation,
	), cronOperations()...)
}
