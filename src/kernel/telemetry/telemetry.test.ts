import { afterEach, describe, expect, it } from 'vitest';
import { createLogger } from './create-logger.ts';
import { createMetrics, type MetricsServer, startMetricsServer } from './create-metrics.ts';
import { remembered } from './metrics.ts';
import { redact, redactText } from './redact.ts';

const recordingLogger = (logLevel: 'debug' | 'info' = 'info') => {
  const lines: string[] = [];
  const log = createLogger({ logLevel }, { write: (line) => void lines.push(line) });
  return { log, lines, last: () => JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown> };
};

describe('the log', () => {
  it('writes level, ISO time, fields and message as one JSON line, from its level on', () => {
    const { log, lines, last } = recordingLogger();
    log.debug({}, 'not written');
    log.child({ part: 'x' }).info({ n: 1 }, 'written');
    expect(lines).toHaveLength(1);
    expect(last()).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      part: 'x',
      n: 1,
      message: 'written',
    });
  });

  it('replaces secrets by the name of their key, at any depth', () => {
    const { log, last, lines } = recordingLogger();
    const secrets = {
      authorization: 's3cr3t',
      Cookie: 's3cr3t',
      masterKey: 's3cr3t',
      masterkey: 's3cr3t',
      apiKey: 's3cr3t',
      'api-key': 's3cr3t',
      newPassword: 's3cr3t',
    };
    log.info(
      {
        a: { b: [{ headers: secrets, tokens: [{ refreshToken: { value: 's3cr3t' } }] }] },
        clientSecret: 's3cr3t',
        otp: 123456,
        tokenPrefix: 'cdt_abcd',
      },
      'x',
    );
    log.child({ password: 's3cr3t' }).info({}, 'y');
    expect(lines.join('')).not.toMatch(/s3cr3t|123456/);
    log.info({ tokenPrefix: 'short', mustChangePassword: true }, 'x');
    expect(last()).toMatchObject({ tokenPrefix: 'short', mustChangePassword: true });
  });

  it('replaces secrets by their form, wherever they stand', () => {
    const { log, lines } = recordingLogger();
    const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJpZCI6MX0.abcdefghijk';
    log.info(
      { text: `got cdt_abcdefghijklmnop and ${jwt}`, url: 'postgres://me:hunter2@host/db' },
      `Bearer hunter2 ${jwt}`,
    );
    log.error(
      { error: new Error(`bad token ${jwt}`, { cause: new Error('postgres://me:hunter2@host') }) },
      'failed',
    );
    expect(lines.join('')).not.toMatch(/hunter2|abcdefghij|eyJ/);
  });

  it.each([
    [
      'https://a.example/hook?token=T0p&x=1#top',
      'https://a.example/hook?token=[redacted]&x=[redacted]#top',
    ],
    ['see https://a.example/?T0p, or b', 'see https://a.example/?[redacted] or b'],
    ['wss://a/?sig=T0p;T0p&empty=&q', 'wss://a/?sig=[redacted];[redacted]&empty=&[redacted]'],
    ['{"to":"https://a/?k=T0p=="}', '{"to":"https://a/?k=[redacted]"}'],
    ['https://a/#access_token=T0p&part', 'https://a/#access_token=[redacted]&part'],
    ['https://a/?next=https://b/?k=T0p', 'https://a/?next=[redacted]?k=[redacted]'],
    ['https://a/b/c is there? yes=1', 'https://a/b/c is there? yes=1'],
    ['a ? b : c=d', 'a ? b : c=d'],
  ])('takes the values out of the queries of addresses: %s', (text, expected) => {
    expect(redactText(text)).toBe(expected);
    expect(redactText(expected)).toBe(expected);
    expect(redact({ in: { deep: [text] } })).toEqual({ in: { deep: [expected] } });
    const { log, lines } = recordingLogger();
    log.error({ err: new Error(text) }, text);
    expect(lines.join('')).not.toContain('T0p');
  });

  it('shows errors with their frames and cause, and database errors without values', () => {
    const { log, last } = recordingLogger();
    const error = Object.assign(
      new Error('invalid input syntax for type uuid: "ann@example.com"'),
      {
        severity: 'ERROR',
        routine: 'string_to_uuid',
        code: '22P02',
        table: 'User',
        detail: 'Key (email)=(ann@example.com) already exists.',
      },
    );
    log.error({ error }, 'failed');
    expect(JSON.stringify(last())).not.toContain('ann@example.com');
    expect(last().error).toMatchObject({
      message: 'invalid input syntax for type uuid',
      code: '22P02',
      table: 'User',
      stack: expect.stringContaining('at '),
    });
  });

  it('survives what cannot be written as JSON', () => {
    const { log, last } = recordingLogger();
    const cyclic: Record<string, unknown> = { big: 10n, bytes: Buffer.from('abc') };
    cyclic.self = cyclic;
    log.info(cyclic, 'x');
    expect(last()).toMatchObject({ big: '10', bytes: '[3 bytes]' });
  });
});

// Guards against expressions that take the square of the text (CWE-1333): security review 2026-11-22, F4.
describe('redaction of hostile text', () => {
  const repeated = (part: string) => part.repeat(Math.ceil(8_190 / part.length));
  const texts = [
    'a',
    'eyJ-',
    'eyJaaaaaa.',
    'cdt_',
    'bearer ',
    'bearer\t\t',
    '://a:',
    '://',
    '://?',
    '://a?b=c&',
    '://a#b=',
    '?a&',
    'a:b@',
    '=(',
    ': "',
    ' ',
    '\n    at ',
    'token',
    '\ud83d',
    '\0',
  ];

  it.each(texts)('takes time with the length of the text only: %j', (part) => {
    const text = repeated(part);
    const error = Object.assign(new Error(text), { severity: 'ERROR', routine: 'x' });
    const begin = process.cpuUsage();
    for (let i = 0; i < 50; i++) redact({ text, list: [text, { [text]: text }], error });
    const { user, system } = process.cpuUsage(begin);
    // One text took 600 ms. Time of the processor, so that a busy machine fails nothing.
    expect(user + system).toBeLessThan(2_500_000);
  });

  it('does not grow with what it is given', () => {
    const many = Array.from({ length: 20_000 }, () => 'a'.repeat(50));
    const nested = Array.from({ length: 5_000 }).reduce<unknown>(
      (inner) => ({ inner, text: 'x'.repeat(100) }),
      1,
    );
    for (const value of [
      many,
      nested,
      { many, nested },
      Object.fromEntries(many.map((text, i) => [`${text}${i}`, text])),
    ]) {
      const text = JSON.stringify(redact({ value, next: 'kept' }));
      expect(text.length).toBeLessThan(50_000);
      expect(text).toContain('"next":"kept"');
    }
  });

  it('leaves no part of a secret where it is cut', () => {
    const secret = `eyJ${'h'.repeat(40)}.${'p'.repeat(400)}.${'s'.repeat(40)}`;
    const texts = Array.from(
      { length: 200 },
      (_, i) => `${'x '.repeat(i)}${secret} cdt_${'q'.repeat(40)} Bearer ${'z'.repeat(40)}`,
    );
    expect(JSON.stringify(redact({ texts }))).not.toMatch(/hhhh|pppp|ssss|qqqq|zzzz/);
    expect(redactText(`${'x'.repeat(8_180)} ${secret}`)).not.toMatch(/hhhh/);
  });

  it('cuts between characters', () => {
    for (const text of [`${'x'.repeat(8_191)}😀`, `${'x'.repeat(8_190)}😀😀`])
      expect(redactText(text).isWellFormed()).toBe(true);
  });
});

describe('metrics', () => {
  const make = () => createMetrics({ metricsPrefix: 'p_', metricsPort: undefined });

  it('have the prefix, and escape labels', async () => {
    const metrics = make();
    metrics.counter('calls_total', 'Calls', ['name']).inc({ name: 'a"b\nc\\' }, 2);
    metrics.gauge('size', 'Size', async () => 7);
    const text = await metrics.expose();
    expect(text).toContain('p_calls_total{name="a\\"b\\nc\\\\"} 2');
    expect(text).toContain('p_size 7');
  });

  it('count observations in cumulative buckets', async () => {
    const metrics = make();
    const histogram = metrics.histogram('time_seconds', 'Time', ['route'], [0.1, 1]);
    const observe = histogram.bind({ route: '/a' });
    observe(0.1);
    observe(0.5);
    histogram.observe({ route: '/a' }, 5);
    const lines = (await metrics.expose())
      .split('\n')
      .filter((line) => line.startsWith('p_time_seconds'));
    expect(lines).toEqual([
      'p_time_seconds_bucket{route="/a",le="0.1"} 1',
      'p_time_seconds_bucket{route="/a",le="1"} 2',
      'p_time_seconds_bucket{route="/a",le="+Inf"} 3',
      'p_time_seconds_sum{route="/a"} 5.6',
      'p_time_seconds_count{route="/a"} 3',
    ]);
  });

  it('show totals that are kept elsewhere as counters, and what is no longer there no more', async () => {
    const metrics = make();
    let kept = [
      { labels: { module: 'a' }, value: 3 },
      { labels: { module: 'b' }, value: 0 },
    ];
    metrics.total('kept_total', 'Kept', () => kept, ['module']);
    expect(await metrics.expose()).toContain(
      '# TYPE p_kept_total counter\np_kept_total{module="a"} 3\np_kept_total{module="b"} 0',
    );
    kept = [{ labels: { module: 'a' }, value: 4 }];
    const text = await metrics.expose();
    expect(text).toContain('p_kept_total{module="a"} 4');
    expect(text).not.toContain('module="b"');
  });

  it('remember a figure that costs something, and keep it while it cannot be had', async () => {
    const answers = [() => 7, () => Promise.reject(new Error('away'))];
    let asked = 0;
    const read = remembered(0, 0, async () => answers[asked++]?.() ?? 9);
    expect([await read(), await read(), await read()]).toEqual([7, 7, 9]);
    const patient = remembered(60_000, 0, async () => (asked += 1));
    const first = await patient();
    expect(await patient()).toBe(first);
  });

  it('go on without a figure that cannot be had', async () => {
    const metrics = make();
    let away = false;
    const read = (): number => {
      if (away) throw new Error('away');
      return 7;
    };
    metrics.gauge('waiting', 'Waiting', async () => read());
    metrics.total('seen_total', 'Seen', read);
    metrics.counter('failed_total', 'Failed').inc();
    await metrics.expose();
    away = true;
    const text = await metrics.expose();
    for (const line of ['p_waiting 7', 'p_seen_total 7', 'p_failed_total 1'])
      expect(text).toContain(line);
  });

  it('answer the same metric for the same name', async () => {
    const metrics = make();
    metrics.counter('n_total', 'N').inc();
    metrics.counter('n_total', 'N').inc();
    metrics.gauge('g', 'G', () => 1);
    metrics.gauge('g', 'G', () => 2);
    const text = await metrics.expose();
    expect(text).toContain('p_n_total 2');
    expect(text).toContain('p_g 2');
  });
});

describe('the metrics server', () => {
  let server: MetricsServer | undefined;
  afterEach(() => server?.close());
  const settings = { metricsPort: 0, metricsHost: '127.0.0.1', metricsToken: undefined };

  it('is absent without a port', async () => {
    expect(
      await startMetricsServer(
        { ...settings, metricsPort: undefined },
        createMetrics({ metricsPrefix: 'p_', metricsPort: undefined }),
      ),
    ).toBeUndefined();
  });

  it('serves the text, with process figures, and nothing else', async () => {
    server = await startMetricsServer(
      settings,
      createMetrics({ metricsPrefix: 'p_', metricsPort: 0 }),
    );
    const response = await fetch(`${server?.address}/metrics`);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ]);
    expect(await response.text()).toContain('p_process_resident_memory_bytes');
    expect((await fetch(`${server?.address}/other`)).status).toBe(404);
    expect((await fetch(`${server?.address}/metrics`, { method: 'POST' })).status).toBe(404);
  });

  it('asks for its token', async () => {
    server = await startMetricsServer(
      { ...settings, metricsToken: 'right' },
      createMetrics({ metricsPrefix: 'p_', metricsPort: undefined }),
    );
    const status = async (authorization?: string) =>
      (
        await fetch(`${server?.address}/metrics`, {
          headers: authorization ? { authorization } : {},
        })
      ).status;
    expect([await status(), await status('Bearer wrong'), await status('Bearer right')]).toEqual([
      401, 401, 200,
    ]);
  });

  it('says what to set when the port is taken', async () => {
    const metrics = createMetrics({ metricsPrefix: 'p_', metricsPort: undefined });
    server = await startMetricsServer(settings, metrics);
    const metricsPort = Number(new URL(server?.address ?? '').port);
    await expect(startMetricsServer({ ...settings, metricsPort }, metrics)).rejects.toThrow(
      /METRICS_PORT/,
    );
  });
});
