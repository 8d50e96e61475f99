import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { testAdminPassword, testMasterKey } from '../../../test/support/node.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../../test/support/spawn.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly service: unknown;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** A collector that takes OTLP as JSON. */
describe('traces', () => {
  const spans: Span[] = [];
  let bodies = '';
  let collector: Server;
  let platform: SpawnedPlatform;

  beforeAll(async () => {
    collector = createServer(async (request, response) => {
      const body = await text(request);
      bodies += body;
      spans.push(...spansOf(JSON.parse(body)));
      response.setHeader('content-type', 'application/json').end('{}');
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => collector.once('listening', resolve));
    const { port } = collector.address() as AddressInfo;
    platform = await spawnPlatform({
      afterFirstStart: true,
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_BSP_SCHEDULE_DELAY: '100',
      },
    });
  }, 90_000);
  afterAll(async () => {
    await platform.dispose();
    collector.close();
  });

  test('follow a request from HTTP to SQL, in the trace that the caller began', async () => {
    await platform.createSchema({ name: 'Traced', fields: { title: 'String' } });
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01` };
    const created = await platform.client.post(
      '/database/Traced',
      { title: 'never in a span' },
      { headers },
    );
    expect(created.status).toBe(200);
    const mine = await waitFor(() => {
      const found = spans.filter((span) => span.traceId === traceId);
      return found.some(({ name }) => name === 'POST /database/Traced') ? found : undefined;
    });
    const http = mine.find(({ name }) => name === 'POST /database/Traced');
    const operation = mine.find(({ parentSpanId }) => parentSpanId === http?.spanId);
    const statement = mine.find(({ facts }) => String(facts['db.query.text']).includes('"Traced"'));
    expect(http?.parentSpanId).toBe('b7ad6b7169203331');
    expect(http?.facts).toMatchObject({
      'http.route': '/database/Traced',
      'http.response.status_code': 200,
    });
    expect(operation?.name).toMatch(/^database\./);
    expect(statement?.name).toMatch(/app\.Traced/);
    expect(bodies).not.toContain('never in a span');
    expect(http?.service).toBe('penstock');
  }, 60_000);

  test('hold no secret', () => {
    expect(bodies).not.toContain(testMasterKey);
    expect(bodies).not.toContain(testAdminPassword);
  });
});

/** The shape of OTLP/HTTP in JSON. */
function spansOf(body: Json): Span[] {
  return body.resourceSpans.flatMap((resource: Json) =>
    resource.scopeSpans.flatMap((scope: Json) =>
      scope.spans.map((span: Json) => ({
        name: span.name,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? '',
        service: attributesOf(resource.resource)['service.name'],
        facts: attributesOf(span),
      })),
    ),
  );
}

const attributesOf = ({ attributes }: Json): Readonly<Record<string, unknown>> =>
  Object.fromEntries(attributes.map(({ key, value }: Json) => [key, Object.values(value)[0]]));
