/**
 * Reports of SES are believed with a certificate of SNS alone, not with what SNS answers to anybody's calls.
 * CWE-295 (https://cwe.mitre.org/data/definitions/295.html).
 */
import { sign } from 'node:crypto';
import { expect, it } from 'vitest';
import {
  certificate,
  certificateKey,
} from '../../../../../test/support/servers/sns-certificate.ts';
import { type CallProvider, DeliveryError } from '../providers/outcome.ts';
import { sesHook } from './ses-hook.ts';

const sns = 'https://sns.eu-central-1.amazonaws.com';
const topicArn = 'arn:aws:sns:eu-central-1:1:feedback';

const answering: CallProvider = async () => ({
  ...{ status: 200, ok: true, header: () => undefined, json: () => ({}) },
  text: `<Attributes>\n${certificate}\n</Attributes>`,
});

async function reportedWith(
  certificateAt: string,
  call: CallProvider = answering,
): Promise<readonly unknown[]> {
  const hook = sesHook(() => ({ topicArn, endpoint: '' }), call);
  const envelope: Record<string, string> = {
    Message: JSON.stringify({ eventType: 'Delivery', mail: { messageId: 'm' } }),
    ...{ MessageId: 'id', Timestamp: '2026-01-01T00:00:00Z', TopicArn: topicArn },
    Type: 'Notification',
  };
  const signed = Object.entries(envelope).map(([name, value]) => `${name}\n${value}\n`);
  const Signature = sign('sha256', Buffer.from(signed.join('')), certificateKey).toString('base64');
  const body = { ...envelope, Signature, SignatureVersion: '2', SigningCertURL: certificateAt };
  const raw = Buffer.from(JSON.stringify(body));
  return (await hook({ raw, headers: {}, url: '', query: {} })).reports;
}

it('takes the certificate from where SNS keeps its own', async () => {
  expect(await reportedWith(`${sns}/SimpleNotificationService-0a1b2c.pem`)).toHaveLength(1);
});

it.each([
  `${sns}/?Action=GetTopicAttributes&X-Amz-Signature=x&n=/SimpleNotificationService-0a.pem`,
  `${sns}/SimpleNotificationService-0a.pem?Action=GetTopicAttributes`,
  `${sns}/SimpleNotificationService-0a.pem#.pem`,
  `${sns}/other/SimpleNotificationService-0a.pem`,
  'https://sns.eu-central-1.amazonaws.com.evil.example/SimpleNotificationService-0a.pem',
  'https://sns.eu-central-1.amazonaws.com@evil.example/SimpleNotificationService-0a.pem',
])('refuses %s', async (address) => {
  await expect(reportedWith(address)).rejects.toThrow(/not at SNS/);
});

it('asks for another attempt while SNS is away', async () => {
  const away: CallProvider = async () => {
    throw new DeliveryError('transient', 'amazonSes', 'no answer in time');
  };
  await expect(reportedWith(`${sns}/SimpleNotificationService-0a.pem`, away)).rejects.toMatchObject(
    { status: 503 },
  );
});
