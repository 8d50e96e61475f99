import { hash } from '@node-rs/argon2';
import { expect, test } from 'vitest';
import { createPasswordHasher } from './password-hasher.ts';

const fast = { memoryKiB: 64, passes: 1 };

test('hashes with argon2id and the parameters in force', async () => {
  const hashed = await createPasswordHasher().hash('correct horse battery staple');
  expect(hashed).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
});

test('verifies the right password and no other', async () => {
  const hasher = createPasswordHasher(fast);
  const hashed = await hasher.hash('correct horse battery staple');
  expect(await hasher.verify(hashed, 'correct horse battery staple')).toBe(true);
  expect(await hasher.verify(hashed, 'correct horse battery stable')).toBe(false);
});

test('cuts nothing off: passwords that differ after 72 bytes differ', async () => {
  const hasher = createPasswordHasher(fast);
  const long = 'x'.repeat(1000);
  const hashed = await hasher.hash(`${long}a`);
  expect(await hasher.verify(hashed, `${long}a`)).toBe(true);
  expect(await hasher.verify(hashed, `${long}b`)).toBe(false);
});

test('takes the composed and the decomposed form of a character for the same', async () => {
  const hasher = createPasswordHasher(fast);
  const hashed = await hasher.hash('na\u00efvet\u00e9 1234');
  expect(await hasher.verify(hashed, 'nai\u0308vete\u0301 1234')).toBe(true);
});

test('answers false for an account without a hash', async () => {
  expect(await createPasswordHasher(fast).verify(undefined, 'no account has this password')).toBe(
    false,
  );
});

test('a hash made with other parameters is outdated', async () => {
  const hasher = createPasswordHasher(fast);
  expect(hasher.outdated(await hasher.hash('abc'))).toBe(false);
  expect(hasher.outdated(await hash('abc', { memoryCost: 128, timeCost: 1, parallelism: 1 }))).toBe(
    true,
  );
});

test('refuses with 503 and Retry-After when too many wait, and serves everybody else', async () => {
  const hasher = createPasswordHasher({ ...fast, concurrency: 1, maxWaiting: 3 });
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => hasher.hash('abc')));
  expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(4);
  for (const result of results) {
    if (result.status === 'rejected')
      expect(result.reason).toMatchObject({ status: 503, code: 'UNAVAILABLE', retryAfter: 2 });
  }
  await expect(hasher.hash('abc')).resolves.toContain('$argon2id$');
});

test('goes on after a hash that cannot be read', async () => {
  const hasher = createPasswordHasher({ ...fast, concurrency: 1 });
  await expect(hasher.verify('not a hash', 'abc')).rejects.toThrow();
  await expect(hasher.hash('abc')).resolves.toContain('$argon2id$');
});
