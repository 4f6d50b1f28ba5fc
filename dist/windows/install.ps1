# Starts Shuultuur with Windows, as a task of the system: the program is no
# Windows service, since the standard library has no code for one.
# Run as administrator: .\install.ps1 C:\shuultuur
param([Parameter(Mandatory)][string]$Dir)
$ErrorActionPreference = 'Stop'
$exe = Join-Path $Dir 'shuultuur.exe'
$config = Join-Path $Dir 'shuultuur.yaml'
if (-not (Test-Path $config)) { & $exe init $Dir }
& $exe check -config $config
if ($LASTEXITCODE -ne 0) { throw "the settings have mistakes" }
$action = New-ScheduledTaskAction -Execute $exe -Argument "run -config `"$config`"" -WorkingDirectory $Dir
$trigger = New-ScheduledTaskTrigger -AtStartup
$settings = New-ScheduledTaskSettingsSet -RestartCount 999 -RestartInterval (New-TimeSpan -Minutes 1) -ExecutionTimeLimit 0
Register-ScheduledTask -TaskName Shuultuur -Action $action -Trigger $trigger -Settings $settings -User 'NT AUTHORITY\LOCAL SERVICE' -Force
Start-ScheduledTask -TaskName Shuultuur
