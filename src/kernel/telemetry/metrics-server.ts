/** `GET /metrics` on a port of its own, so that figures are never on a public surface by accident. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Settings } from '../settings/settings.ts';
import { StartError } from '../start-error.ts';
import type { Metrics } from './metrics.ts';

export interface MetricsServer {
  /** Such as `http://127.0.0.1:9091`. */
  readonly address: string;
  close(): Promise<void>;
}

export type MetricsSettings = Pick<Settings, 'metricsPort' | 'metricsHost' | 'metricsToken'>;

/** `undefined` unless METRICS_PORT is set. Throws `StartError` when the port cannot be used. */
export async function startMetricsServer(
  settings: MetricsSettings,
  metrics: Metrics,
): Promise<MetricsServer | undefined> {
  const { metricsPort, metricsHost, metricsToken } = settings;
  if (metricsPort === undefined) return undefined;
  const server = createServer(
    (request, response) => void answer(request, response, metrics, metricsToken),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new StartError(
          `Metrics cannot be served on ${metricsHost}:${metricsPort}: set METRICS_PORT or METRICS_HOST`,
          { cause },
        ),
      ),
    );
    server.listen(metricsPort, metricsHost, resolve);
  });
  const { address, port, family } = server.address() as AddressInfo;
  return {
    address: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  metrics: Metrics,
  token: string | undefined,
): Promise<void> {
  if (token !== undefined && !presents(request, token)) {
    response
      .writeHead(401, { 'www-authenticate': 'Bearer', 'content-type': 'text/plain' })
      .end('This needs the metrics token\n');
    return;
  }
  const path = request.url?.split('?', 1)[0];
  if (path !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('Metrics are at GET /metrics\n');
    return;
  }
  try {
    const text = await metrics.expose();
    response
      .writeHead(200, {
        'content-type': 'text/plain; version=0.0.4; charset=utf-8',
        'cache-control': 'no-store',
      })
      .end(text);
  } catch {
    response.writeHead(500, { 'content-type': 'text/plain' }).end('The figures cannot be shown\n');
  }
}

function presents(request: IncomingMessage, token: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(request.headers.authorization ?? ''), digest(`Bearer ${token}`));
}
