import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { testAdminPassword, testMasterKey } from '../../../test/support/node.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../../test/support/spawn.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { openTracing } from './open-tracing.ts';

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly links: readonly string[];
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

  const [traceId, spanId] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
  const headersOf = (flags: string) => ({
    ...{ traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: 'vendor=of-the-caller' },
    baggage: 'who=of-the-caller',
  });

  test.each([
    ['sampled', '01'],
    ['not sampled', '00'],
  ])(
    'follow a request from HTTP to SQL, whose caller began one that is %s',
    async (_, flags) => {
      const name = `Traced${flags}`;
      await platform.createSchema({ name, fields: { title: 'String' } });
      const created = await platform.client.post(
        `/database/${name}`,
        { title: 'never in a span' },
        { headers: headersOf(flags) },
      );
      expect(created.status).toBe(200);
      const http = await waitFor(() =>
        spans.find((span) => span.name === `POST /database/${name}`),
      );
      const mine = spans.filter((span) => span.traceId === http.traceId);
      const operation = mine.find(({ parentSpanId }) => parentSpanId === http.spanId);
      const statement = mine.find(({ facts }) =>
        String(facts['db.query.text']).includes(`"${name}"`),
      );
      expect(http).toMatchObject({ parentSpanId: '', links: [`${traceId}-${spanId}`] });
      expect(spans.map((span) => span.traceId)).not.toContain(traceId);
      expect(http.facts).toMatchObject({
        'http.route': `/database/${name}`,
        'http.response.status_code': 200,
      });
      expect(operation?.name).toMatch(/^database\./);
      expect(statement?.name).toMatch(new RegExp(`app\\.${name}`));
      // The kind of the event, which stands in the text itself.
      expect(statement?.facts['db.query.text']).not.toContain(`:${name}`);
      for (const value of ['never in a span', 'of-the-caller'])
        expect(bodies.includes(value)).toBe(false);
      expect(http.service).toBe('penstock');
    },
    60_000,
  );

  test('go on with what the caller began where callers are trusted', async () => {
    const { port } = collector.address() as AddressInfo;
    const otlpEndpoint = `http://127.0.0.1:${port}`;
    const tracing = openTracing({ otlpEndpoint, traceContext: 'continue' });
    const noted = (flags: string): Promise<void> =>
      tracing.request(`flags ${flags}`, headersOf(flags), async () => undefined);
    await Promise.all([noted('00'), noted('01'), noted('broken')]);
    await tracing.close();
    expect(spans.find(({ name }) => name === 'flags 01')).toMatchObject({
      ...{ traceId, parentSpanId: spanId, links: [] },
    });
    expect(spans.find(({ name }) => name === 'flags broken')?.parentSpanId).toBe('');
    expect(spans.some(({ name }) => name === 'flags 00')).toBe(false);
  });

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
        links: (span.links ?? []).map((link: Json) => `${link.traceId}-${link.spanId}`),
        service: attributesOf(resource.resource)['service.name'],
        facts: attributesOf(span),
      })),
    ),
  );
}

const attributesOf = ({ attributes }: Json): Readonly<Record<string, unknown>> =>
  Object.fromEntries(attributes.map(({ key, value }: Json) => [key, Object.values(value)[0]]));
