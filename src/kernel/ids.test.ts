import { expect, it } from 'vitest';
import { isId, newId } from './ids.ts';

it('makes UUIDs of version 7 with the time in front', () => {
  const before = Date.now();
  const id = newId();
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const time = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  // Many ids in one millisecond borrow from the next ones.
  expect(time).toBeGreaterThanOrEqual(before);
});

it('makes ids that only grow and never repeat', () => {
  const ids = Array.from({ length: 20_000 }, newId);
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

it('knows an id from other text', () => {
  expect(isId(newId())).toBe(true);
  expect(isId('018F2B6E-7C1A-7000-8000-000000000000')).toBe(true);
  for (const other of [
    '',
    'abc',
    `${newId()} `,
    `{${newId()}}`,
    newId().replaceAll('-', ''),
    7,
    null,
    undefined,
    {},
  ]) {
    expect(isId(other)).toBe(false);
  }
});
