/** Requests that somebody without credentials may make, with nothing but `fetch`. */
import { expect } from 'vitest';
import type { SignedRequest } from '../provider.ts';
import { type Bench, bytes, read, refused, type } from './bench.ts';

const make = (request: SignedRequest, body?: string): Promise<Response> => {
  // A browser sets the length itself.
  const { 'content-length': _, ...headers } = request.headers;
  return fetch(request.url, {
    method: request.method,
    headers,
    ...(body !== undefined && { body }),
  });
};

export function signedCases(bench: Bench): void {
  replacementCase(bench);
  bench.check('a signed read answers the bytes as asked for, and only these', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'a b/ü#1?&=%.html' };
    await provider.put(place, bytes('<p>'), { contentType: 'text/html' });
    const options = {
      expiresInSeconds: 60,
      disposition: `attachment; filename="x y.txt"; filename*=UTF-8''%C3%BC.txt`,
      contentType: 'text/plain',
    };
    if (!provider.capabilities.signedRequests) {
      await expect(provider.signRead(place, options)).rejects.toEqual(refused('REFUSED'));
      return;
    }
    const signed = await provider.signRead(place, options);
    expect(signed.method).toBe('GET');
    expect(signed.expiresAt.getTime()).toBeLessThanOrEqual(Date.now() + 60_000);
    const answer = await make(signed);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe('<p>');
    expect(answer.headers.get('content-type')).toContain('text/plain');
    expect(answer.headers.get('content-disposition')).toBe(options.disposition);
    const other = await make({ ...signed, url: signed.url.replace('%23', '%24') });
    expect([400, 403]).toContain(other.status);
  });

  bench.check('a signed write takes one object of the signed type', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'up load/ü#1?.txt' };
    const options = { expiresInSeconds: 60, contentType: 'text/plain', size: 5 };
    if (!provider.capabilities.signedRequests) {
      await expect(provider.signWrite(place, options)).rejects.toEqual(refused('REFUSED'));
      return;
    }
    const signed = await provider.signWrite(place, options);
    expect(signed.method).toBe('PUT');
    const answer = await make(signed, 'hello');
    expect(answer.status, await answer.text()).toBeLessThan(300);
    expect((await read(provider, place)).toString()).toBe('hello');
    expect(await provider.head(place)).toMatchObject({ size: 5, contentType: 'text/plain' });
    const elsewhere = { ...signed, url: signed.url.replace('%23', '%24') };
    expect([400, 403]).toContain((await make(elsewhere, 'hello')).status);
    if (!provider.capabilities.signedLength) return;
    expect([400, 403]).toContain((await make(signed, 'much longer')).status);
    expect((await read(provider, place)).toString()).toBe('hello');
  });

  bench.check('a signature ends', async () => {
    const { provider } = bench;
    if (!provider.capabilities.signedRequests) return;
    const place = { bucket: await bench.bucket(), key: 'late' };
    await provider.put(place, bytes('late'), type);
    const signed = await provider.signRead(place, { expiresInSeconds: 1 });
    await expect
      .poll(async () => (await make(signed)).status, { timeout: 20_000, interval: 300 })
      .toBeGreaterThanOrEqual(400);
  });
}

function replacementCase(bench: Bench): void {
  bench.check('a signed write replaces nothing', async () => {
    const { provider } = bench;
    if (!provider.capabilities.signedRequests) return;
    const place = { bucket: await bench.bucket(), key: 'once' };
    const signed = await provider.signWrite(place, { expiresInSeconds: 60, ...type });
    expect((await make(signed, 'looked at')).status).toBeLessThan(300);
    expect([403, 409, 412]).toContain((await make(signed, 'replaced!')).status);
    expect((await read(provider, place)).toString()).toBe('looked at');
  });
}
