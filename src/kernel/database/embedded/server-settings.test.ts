import { expect, it } from 'vitest';
import { serverArguments } from './server-settings.ts';

it('takes as many connections as its nodes may open, and a hundred at least', () => {
  expect(serverArguments('/data', '/socket', 39)).toContain('max_connections=100');
  expect(serverArguments('/data', '/socket', 332)).toContain('max_connections=332');
});
