import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { type CorsOptions, defaultSurfaceOptions, fixedSurfaceOptions } from './options.ts';

const start = (cors: Partial<CorsOptions>) => {
  const options = defaultSurfaceOptions('client');
  return startSurfaceFixture({
    client: fixedSurfaceOptions({ ...options, cors: { ...options.cors, ...cors } }),
  });
};

const preflight = (surfaces: SurfaceFixture, origin: string, path = '/notes') =>
  surfaces.client(path, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST' },
  });

describe('any origin', () => {
  let surfaces: SurfaceFixture;
  beforeAll(async () => {
    surfaces = await start({ credentials: true });
  });
  afterAll(() => surfaces.close());

  it('is allowed without credentials, also on errors', async () => {
    for (const path of ['/notes', '/nothing', '/who/user']) {
      const { headers } = await surfaces.client(path, { headers: { origin: 'https://a.example' } });
      expect(headers.get('access-control-allow-origin')).toBe('*');
      expect(headers.get('access-control-allow-credentials')).toBeNull();
      expect(headers.get('access-control-expose-headers')).toMatch(
        /etag.*retry-after.*ratelimit-limit.*x-request-id/,
      );
    }
  });

  it('gets its preflight without credential', async () => {
    const response = await preflight(surfaces, 'https://a.example');
    expect([
      response.status,
      await response.text(),
      response.headers.get('content-length'),
    ]).toEqual([204, '', null]);
    expect(response.headers.get('access-control-allow-methods')).toContain('PATCH');
    expect(response.headers.get('access-control-max-age')).toBe('86400');
    const allowed = response.headers.get('access-control-allow-headers');
    for (const name of [
      'authorization',
      'content-type',
      'clientid',
      'clientsecret',
      'captchatoken',
      'idempotency-key',
      'if-match',
    ]) {
      expect(allowed).toContain(name);
    }
    expect(allowed).not.toContain('masterkey');
  });

  it('learns the methods of a path from a plain OPTIONS', async () => {
    const response = await surfaces.client('/notes', { method: 'OPTIONS' });
    expect([response.status, response.headers.get('allow')]).toEqual([
      204,
      'GET, HEAD, POST, OPTIONS',
    ]);
    expect((await surfaces.client('/nothing', { method: 'OPTIONS' })).status).toBe(404);
  });
});

describe('listed origins', () => {
  let surfaces: SurfaceFixture;
  beforeAll(async () => {
    surfaces = await start({
      origins: ['https://a.example', 'https://b.example'],
      credentials: true,
    });
  });
  afterAll(() => surfaces.close());

  it('are echoed exactly, with credentials', async () => {
    for (const response of [
      await surfaces.client('/notes', { headers: { origin: 'https://b.example' } }),
      await preflight(surfaces, 'https://b.example'),
    ]) {
      expect(response.headers.get('access-control-allow-origin')).toBe('https://b.example');
      expect(response.headers.get('access-control-allow-credentials')).toBe('true');
      expect(response.headers.get('vary')).toBe('Origin');
    }
  });

  it('go without credentials unless an operator wants them', async () => {
    const plain = await start({ origins: ['https://a.example'], credentials: false });
    try {
      for (const { headers } of [
        await plain.client('/notes', { headers: { origin: 'https://a.example' } }),
        await preflight(plain, 'https://a.example'),
      ]) {
        expect(headers.get('access-control-allow-origin')).toBe('https://a.example');
        expect(headers.get('access-control-allow-credentials')).toBeNull();
      }
    } finally {
      await plain.close();
    }
  });

  it.each([
    'https://evil.example',
    'https://a.example.evil',
    'http://a.example',
    'null',
    'https://evila.example',
  ])('do not include %s', async (origin) => {
    for (const response of [
      await surfaces.client('/notes', { headers: { origin } }),
      await preflight(surfaces, origin),
    ]) {
      expect(response.headers.get('access-control-allow-origin')).toBeNull();
      expect(response.headers.get('vary')).toBe('Origin');
    }
  });
});

it('sends nothing when switched off, and allows operators their headers', async () => {
  const surfaces = await start({ enabled: false });
  try {
    const { headers } = await surfaces.client('/notes', {
      headers: { origin: 'https://a.example' },
    });
    expect(headers.get('access-control-allow-origin')).toBeNull();
    const admin = await surfaces.admin('/locked', {
      method: 'OPTIONS',
      headers: { origin: 'https://a.example', 'access-control-request-method': 'GET' },
    });
    expect(admin.headers.get('access-control-allow-headers')).toContain('masterkey');
  } finally {
    await surfaces.close();
  }
});
