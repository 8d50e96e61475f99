/** A service that gets webhooks and answers as a test wants it. */
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';

export interface Arrival {
  readonly id: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Json;
}

export interface Receiver {
  readonly url: string;
  readonly arrivals: readonly Arrival[];
  /** What it answers from now on; 204 at first. */
  answer(reply: (arrival: Arrival) => Reply | Promise<Reply>): void;
  close(): Promise<void>;
}

interface Reply {
  readonly status: number;
  readonly body?: string;
  readonly headers?: Record<string, string>;
}

export async function startReceiver(): Promise<Receiver> {
  const arrivals: Arrival[] = [];
  let reply: Parameters<Receiver['answer']>[0] = () => ({ status: 204 });
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    const { headers } = request;
    const arrival = { id: String(headers['webhook-id']), headers, text, body: JSON.parse(text) };
    arrivals.push(arrival);
    const { status, body = '', headers: more = {} } = await reply(arrival);
    response.writeHead(status, more).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    arrivals,
    answer(next) {
      reply = next;
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** The signature that a delivery should have. */
export function expectedSignature(secret: string, { id, headers, text }: Arrival): string {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signed = `${id}.${headers['webhook-timestamp']}.${text}`;
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
}

export const createEndpoint = async (admin: Api, given: object): Promise<Json> =>
  expectStatus(
    await admin.post('/webhooks/endpoints', {
      name: `endpoint-${crypto.randomUUID()}`,
      events: ['record.*'],
      ...given,
    }),
    200,
    'endpoint',
  ).body;

export const deliveriesOf = async (admin: Api, id: string, query = {}): Promise<Json[]> =>
  expectStatus(
    await admin.get(`/webhooks/endpoints/${id}/deliveries`, { query: { limit: 200, ...query } }),
    200,
    'deliveries',
  ).body.deliveries;

/** The deliveries of an endpoint, once there are so many in that state. */
export const deliveriesIn = (
  admin: Api,
  id: string,
  { state, count = 1 }: { readonly state: string; readonly count?: number },
): Promise<Json[]> =>
  waitFor(
    async () => {
      const found = await deliveriesOf(admin, id, { state });
      return found.length >= count ? found : undefined;
    },
    { what: `${count} deliveries that are ${state}` },
  );
