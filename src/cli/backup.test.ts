/** The words of the commands; what they do is tested in src/backup and acceptance. */
import { expect, it } from 'vitest';
import { backup, restore } from './backup.ts';

it.each([
  [],
  [''],
  ['verify'],
  ['verify', ''],
  ['verify', 'a', 'b'],
  ['verify', 'a', '--with-keys'],
  ['a', 'b'],
  ['a', '--accept-unsigned'],
  ['a', '--fast'],
])('backup does not understand %j', async (...args: string[]) => {
  await expect(backup(args)).rejects.toThrow(/^Usage: penstock backup <file>/);
});

it.each([[], [''], ['a', 'b'], ['a', '--with-keys'], ['--accept-unsigned']])(
  'restore does not understand %j',
  async (...args: string[]) => {
    await expect(restore(args)).rejects.toThrow(/^Usage: penstock backup <file>/);
  },
);
