import { expect, it } from 'vitest';
import { checkFile } from './house-rules.ts';

const messages = (path: string, text: string) =>
  checkFile({ path, text }, '/srv/checkout').map(({ message }) => message);

it('finds folders of one machine, but not the same words inside addresses', () => {
  const folder = ['', 'work', 'main'].join('/');
  expect(messages('README.md', `cd ${folder}/src`)).toHaveLength(1);
  expect(messages('README.md', 'see /srv/checkout/README.md')).toHaveLength(1);
  expect(messages('README.md', `https://example.com${folder}/page and ./frame${folder}`)).toEqual(
    [],
  );
});

it('wants a lock file without download addresses', () => {
  expect(
    messages('package-lock.json', '{"resolved": "https://registry.example/x.tgz"}'),
  ).toHaveLength(1);
  expect(
    messages('package-lock.json', '{"integrity": "sha512-x", "resolved": "packages/client"}'),
  ).toEqual([]);
});

it('wants exact versions', () => {
  expect(
    messages(
      'package.json',
      '{"dependencies": {"a": "1.2.3", "b": "^1.0.0"}, "devDependencies": {"c": "1.0.0-beta.1", "d": "npm:x@1.2.3"}}',
    ),
  ).toEqual(['b is not pinned to one version (^1.0.0)']);
});

it('wants people to be "they"', () => {
  const [one, other] = ['h', 'sh'].map((start) => `${start}e`);
  expect(messages('docs/guides/teams.md', `Nobody gives more than ${one} has`)).toHaveLength(1);
  expect(
    messages('src/a.ts', `/** What ${other} owns. */\n/** The other, there, this. */`),
  ).toEqual([`says "${other}": a person is "they" or "you"`]);
});
