/**
 * Advertising and phishing in mails of ours, by the name of a team (OWASP API6:2023,
 * https://cwe.mitre.org/data/definitions/451.html): anybody may make a team and invite any address to it.
 */
import { expect, test } from 'vitest';
import type { TeamsConfig } from '../../config/teams.ts';
import { createInviteMail } from './invite-mail.ts';
import type { Person, TeamRow } from './queries.ts';

test.each([
  'Free gifts at https://evil.example/now',
  'www.evil.example',
  'evil.example/pay',
  'evil.example',
])('%s is no address that a mail program would make a link of', async (name) => {
  let told: unknown;
  const mail = createInviteMail({
    messages: {
      async sendEmail(_transaction, { variables }) {
        told = variables?.teamName;
        return undefined;
      },
    },
    allowedRedirect: (address) => address,
    config: () => ({}) as TeamsConfig,
  });
  const team = { name } as TeamRow;
  const inviter = { username: 'ada' } as Person;
  await mail.send({} as never, {
    to: 'bob@example.com',
    page: 'https://app.example.com/join',
    token: 't',
    team,
    inviter,
  });
  expect(told).not.toMatch(/:\/\/|www\.\w|\w\.\w|\w\/\w/);
  expect(String(told).replaceAll('\u2060', '')).toBe(name);
});
