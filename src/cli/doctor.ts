/** `penstock doctor`: says what is wrong with the installation, and what to do about it. */
import { examine } from '../doctor/examine-installation.ts';
import type { Finding, Severity } from '../doctor/finding.ts';
import { readSettings } from '../kernel/settings/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import { createLogger } from '../kernel/telemetry/create-logger.ts';
import { platformMigrations } from '../platform.ts';

const marks: Readonly<Record<Severity, string>> = {
  ok: 'ok      ',
  note: 'note    ',
  warning: 'WARNING ',
  problem: 'PROBLEM ',
};

export const doctorUsage = 'Usage: penstock doctor [--json] (see docs/operations/doctor.md)';

/** Answers 1 when something hurts now, 0 otherwise. */
export async function doctor(args: readonly string[]): Promise<number> {
  const asJson = args[0] === '--json';
  if (args.length > (asJson ? 1 : 0)) throw new StartError(doctorUsage);
  const settings = readSettings(process.env);
  const log = createLogger({ ...settings, logLevel: 'silent' });
  const findings = await examine({ settings, log, migrations: platformMigrations });
  process.stdout.write(
    asJson ? `${JSON.stringify({ findings }, undefined, 2)}\n` : reportOf(findings),
  );
  return findings.some(({ severity }) => severity === 'problem') ? 1 : 0;
}

function reportOf(findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ severity, subject, message, advice }) => [
    `${marks[severity]} ${subject}: ${message}`,
    ...(advice === undefined ? [] : [`${' '.repeat(9)} -> ${advice}`]),
  ]);
  return `${lines.join('\n')}\n\n${summaryOf(findings)}\n`;
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (severity: Severity): number =>
    findings.filter((finding) => finding.severity === severity).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  if (problems > 0)
    return `${problems} ${problems === 1 ? 'problem needs' : 'problems need'} you now; ${warnings} warnings.`;
  if (warnings > 0)
    return `It works; ${warnings} ${warnings === 1 ? 'warning' : 'warnings'} to look at.`;
  return 'All is well.';
}
