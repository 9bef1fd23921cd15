// micro.mjs: a micro service of NATS (ADR-32), which clients can find. Its library @nats-io/services
// is a prerelease that would bring a second copy of the NATS client.
import { nuid } from "@nats-io/transport-node";

// offer starts a service whose endpoints are {name, subject, metadata, work}, in the queue group. It returns
// the id of the instance, and end, which waits for the requests that have come. tell gets errors.
export function offer(nc, { queue, description, ...service }, endpoints, tell) {
  const id = nuid.next(), started = new Date(), subscriptions = [];
  function listen(subject, work, queue) {
    const callback = (err, msg) => err ? tell(err) : Promise.resolve(work(msg)).catch(tell);
    subscriptions.push(nc.subscribe(subject, { queue, callback }));
  }
  for (const { subject, work } of endpoints) listen(subject, work, queue);
  const described = endpoints.map(({ name, subject, metadata = {} }) => ({ name, subject, queue_group: queue, metadata }));
  const about = {
    PING: () => ({}),
    INFO: () => ({ description, endpoints: described }),
    STATS: () => ({ started, endpoints: described.map((endpoint, i) => ({ ...endpoint, num_requests: subscriptions[i].getReceived() })) }),
  };
  for (const verb in about) {
    const type = `io.nats.micro.v1.${verb.toLowerCase()}_response`;
    const answer = (msg) => { msg.respond(JSON.stringify({ type, ...service, id, ...about[verb]() })); };
    for (const end of ["", `.${service.name}`, `.${service.name}.${id}`]) listen(`$SRV.${verb}${end}`, answer);
  }
  return { id, end: () => Promise.all(subscriptions.map((subscription) => subscription.drain())) };
}
