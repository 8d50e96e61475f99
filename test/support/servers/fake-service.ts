/** A server of somebody else as a test wants it: it keeps what it is asked, and answers what the test says. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ServiceRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what a test expects is what it reads.
  json(): any;
  form(): Record<string, string>;
}

export interface ServiceAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Objects are sent as JSON. */
  readonly body?: string | object;
  /** The connection is cut instead. */
  readonly cut?: true;
  /** Nothing is said, and the connection stays open. */
  readonly silent?: true;
}

export interface FakeService {
  readonly url: string;
  readonly requests: ServiceRequest[];
  /** Answers from now on. */
  answer: (request: ServiceRequest) => ServiceAnswer;
  close(): Promise<void>;
}

export async function startFakeService(
  answer: FakeService['answer'] = () => ({}),
): Promise<FakeService> {
  const requests: ServiceRequest[] = [];
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const bytes = Buffer.concat(chunks);
      const text = bytes.toString();
      const request: ServiceRequest = {
        method: incoming.method ?? '',
        path: incoming.url ?? '',
        headers: incoming.headers,
        bytes,
        text,
        json: () => JSON.parse(text),
        form: () => Object.fromEntries(new URLSearchParams(text)),
      };
      requests.push(request);
      const { status = 200, headers = {}, body = '', cut, silent } = service.answer(request);
      if (silent) return;
      if (cut) {
        outgoing.destroy();
        return;
      }
      const json = typeof body === 'object';
      outgoing.writeHead(status, {
        ...(json ? { 'content-type': 'application/json' } : {}),
        ...headers,
      });
      outgoing.end(json ? JSON.stringify(body) : body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const service: FakeService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    answer,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return service;
}
